// random-k   one element of each of k strata, times the stratum's length. Payload: u64 k, u64 seed, k fp32 values; the
//            positions follow from seed and step
// sign       mean magnitude of the tensor, and a sign bit per element, lowest bit first (arXiv 1901.09847)
// qsgd       per 512 elements the Euclidean norm as fp32, then per element an int8 level in [-127, 127], rounded at
// random
//            (arXiv 1610.02132, with a byte in place of its variable-length code)
// natural    exponents rounded at random to a power of two: a byte each, 0 for zero, then a sign bit each
//            (arXiv 1905.10988)
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/compress/codec_rows.h"

namespace fusion::compress::rows {
namespace {

std::size_t bitmap_bytes(std::size_t n) { return n / 8 + (n % 8 != 0); }

void append_signs(Values x, Out out) {
  const std::size_t start = out.size();
  out.resize(start + bitmap_bytes(x.size()));
  for (std::size_t at = 0; at < x.size(); at += 64) {
    const Values part = x.subspan(at, std::min<std::size_t>(64, x.size() - at));
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < part.size(); ++j)
      word |= std::uint64_t{std::bit_cast<std::uint32_t>(part[j]) >> 31} << j;
    std::memcpy(out.data() + start + at / 8, &word, bitmap_bytes(part.size()));
  }
}

/// out[i] = magnitude(i), negative where its bit says so: the sign is put in, not chosen.
template <class Magnitude>
void with_signs(std::span<const std::byte> signs, std::span<float> out, Magnitude magnitude) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto sign = static_cast<std::uint32_t>(signs[i / 8]) >> (i % 8) << 31;
    out[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude(i)) ^ sign);
  }
}

/// The tensor in k parts that differ in length by one at most, none of them empty.
struct Strata {
  std::uint64_t n, k;
  PositionalRandom random;
  std::uint64_t begin(std::uint64_t j) const { return j * (n / k) + std::min(j, n % k); }
  std::uint64_t length(std::uint64_t j) const { return begin(j + 1) - begin(j); }
  std::uint64_t pick(std::uint64_t j) const { return begin(j) + random.bits(j) % length(j); }
};

void encode_random_k(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace&, Out out,
                     std::span<float>) {
  const std::uint64_t k = kept_of(x.size(), options.keep);
  const Strata strata{x.size(), k, PositionalRandom(options.seed, state.step)};
  append(out, k);
  append(out, options.seed);
  for (std::uint64_t j = 0; j < k; ++j) append(out, x[strata.pick(j)]);
}

void decode_random_k(std::span<const std::byte> payload, std::uint64_t step, TensorState&, CodecWorkspace&,
                     std::span<float> out) {
  PayloadReader in(payload);
  const auto k = in.one<std::uint64_t>(), seed = in.one<std::uint64_t>();
  if (k > out.size() || (k == 0 && !out.empty())) throw RuntimeFault("coded tensor: no such number of elements");
  const Strata strata{out.size(), k, PositionalRandom(seed, step)};
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::uint64_t j = 0; j < k; ++j) out[strata.pick(j)] = in.one<float>() * static_cast<float>(strata.length(j));
  in.finish();
}

/// Eight partial sums, so that no addition waits for the one before.
double mean_magnitude(Values x) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= x.size(); i += sums.size())
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += std::abs(static_cast<double>(x[i + j]));
  for (; i < x.size(); ++i) sums[0] += std::abs(static_cast<double>(x[i]));
  return x.empty() ? 0 : std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(x.size());
}

void encode_sign(Values x, const MethodOptions&, TensorState&, CodecWorkspace&, Out out, std::span<float> decoded) {
  const auto scale = static_cast<float>(mean_magnitude(x));
  append(out, scale);
  append_signs(x, out);
  for (std::size_t i = 0; i < x.size(); ++i) decoded[i] = std::signbit(x[i]) ? -scale : scale;
}

void decode_sign(std::span<const std::byte> payload, std::uint64_t, TensorState&, CodecWorkspace&,
                 std::span<float> out) {
  PayloadReader in(payload);
  const auto scale = in.one<float>();
  const auto signs = in.bytes(bitmap_bytes(out.size()));
  in.finish();
  with_signs(signs, out, [&](std::size_t) { return scale; });
}

constexpr std::size_t bucket = 512;
constexpr float levels = 127;

float norm(Values x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  // Beyond fp32 only where a tensor is near its end; the levels then saturate.
  return static_cast<float>(std::min(std::sqrt(sum), static_cast<double>(std::numeric_limits<float>::max())));
}

float level_value(std::int8_t level, float length) { return static_cast<float>(level) / levels * length; }

void encode_qsgd(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace&, Out out,
                 std::span<float>) {
  const PositionalRandom random(options.seed, state.step);
  std::vector<std::int8_t> codes(x.size());
  for (std::size_t at = 0; at < x.size(); at += bucket) {
    const Values part = x.subspan(at, std::min(bucket, x.size() - at));
    const float length = norm(part);
    append(out, length);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const float share = length == 0 ? 0 : std::min(std::abs(part[i]) / length, 1.0f) * levels;
      const auto level = static_cast<std::int8_t>(std::floor(std::min(share + random.uniform(at + i), levels)));
      codes[at + i] = std::signbit(part[i]) ? static_cast<std::int8_t>(-level) : level;
    }
  }
  append(out, std::span<const std::int8_t>(codes));
}

void decode_qsgd(std::span<const std::byte> payload, std::uint64_t, TensorState&, CodecWorkspace&,
                 std::span<float> out) {
  PayloadReader in(payload);
  std::vector<float> lengths(out.size() / bucket + (out.size() % bucket != 0));
  in.fill(std::span<float>(lengths));
  const auto codes = in.bytes(out.size());
  in.finish();
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = level_value(static_cast<std::int8_t>(codes[i]), lengths[i / bucket]);
}

/// The exponent field after rounding: up with the probability that the mantissa is of the way. The top binade stays.
std::uint8_t rounded_exponent(float x, float uniform) {
  const std::uint32_t bits = magnitude_bits(x), exponent = bits >> 23;
  const float way = static_cast<float>(bits & 0x7fffffu) * 0x1p-23f;
  return static_cast<std::uint8_t>(exponent + (exponent < 254 && uniform < way));
}

void encode_natural(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace&, Out out,
                    std::span<float>) {
  const PositionalRandom random(options.seed, state.step);
  std::vector<std::uint8_t> exponents(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) exponents[i] = rounded_exponent(x[i], random.uniform(i));
  append(out, std::span<const std::uint8_t>(exponents));
  append_signs(x, out);
}

void decode_natural(std::span<const std::byte> payload, std::uint64_t, TensorState&, CodecWorkspace&,
                    std::span<float> out) {
  PayloadReader in(payload);
  const auto exponents = in.bytes(out.size());
  const auto signs = in.bytes(bitmap_bytes(out.size()));
  in.finish();
  with_signs(signs, out,
             [&](std::size_t i) { return std::bit_cast<float>(static_cast<std::uint32_t>(exponents[i]) << 23); });
}

WireSize random_k_size(const Shape& shape, const MethodOptions& options) {
  return exactly(16 + 4 * kept_of(elements_of(shape), options.keep));
}
WireSize sign_size(const Shape& shape, const MethodOptions&) { return exactly(4 + bitmap_bytes(elements_of(shape))); }
WireSize qsgd_size(const Shape& shape, const MethodOptions&) {
  const std::uint64_t n = elements_of(shape);
  return exactly(4 * (n / bucket + (n % bucket != 0)) + n);
}
WireSize natural_size(const Shape& shape, const MethodOptions&) {
  const std::uint64_t n = elements_of(shape);
  return exactly(n + bitmap_bytes(n));
}

/// An element of a stratum of length s is kept with probability 1 / s and then s times itself: variance (s - 1) x^2.
double random_k_constant(const Shape& shape, const MethodOptions& options) {
  const std::uint64_t n = elements_of(shape), k = n == 0 ? 1 : kept_of(n, options.keep);
  return static_cast<double>((n + k - 1) / k) - 1 + 1e-6;
}
/// ||x - mean |x| sign x||^2 = ||x||^2 - ||x||_1^2 / n, and ||x||_1 >= ||x||.
double sign_constant(const Shape& shape, const MethodOptions&) {
  const auto n = static_cast<double>(elements_of(shape));
  return n == 0 ? 0 : 1 - 1 / n + 1e-6;
}
/// Lemma 3.1 of the paper for a bucket: min(B / s^2, sqrt(B) / s); and the rounding of fp32.
double qsgd_constant(const Shape&, const MethodOptions&) {
  const auto b = static_cast<double>(bucket), s = static_cast<double>(levels);
  return std::min(b / (s * s), std::sqrt(b) / s) * 1.001;
}
double natural_constant(const Shape&, const MethodOptions&) { return 0.125; }  // theorem 1 of the paper

}  // namespace

const MethodRow random_k{
    .method = Method::random_k,
    .name = "random-k",
    .help = "random elements, scaled so that the mean is right",
    .guarantee = Guarantee::unbiased,
    .constant = random_k_constant,
    .feedback = false,
    .reference = false,
    .payload_size = random_k_size,
    .passes = {1.7, 2.8},
    .encode = encode_random_k,
    .decode = decode_random_k,
};
const MethodRow sign{
    .method = Method::sign,
    .name = "sign",
    .help = "signs and the mean magnitude (arXiv 1901.09847)",
    .guarantee = Guarantee::contraction,
    .constant = sign_constant,
    .feedback = true,
    .reference = false,
    .payload_size = sign_size,
    .passes = {13, 4.2},
    .encode = encode_sign,
    .decode = decode_sign,
};
const MethodRow qsgd{
    .method = Method::qsgd,
    .name = "qsgd",
    .help = "levels of the norm, rounded at random (arXiv 1610.02132)",
    .guarantee = Guarantee::unbiased,
    .constant = qsgd_constant,
    .feedback = false,
    .reference = false,
    .payload_size = qsgd_size,
    .passes = {36, 4.8},
    .encode = encode_qsgd,
    .decode = decode_qsgd,
};
const MethodRow natural{
    .method = Method::natural,
    .name = "natural",
    .help = "powers of two, rounded at random (arXiv 1905.10988)",
    .guarantee = Guarantee::unbiased,
    .constant = natural_constant,
    .feedback = false,
    .reference = false,
    .payload_size = natural_size,
    .passes = {24, 5.5},
    .encode = encode_natural,
    .decode = decode_natural,
};

}  // namespace fusion::compress::rows
