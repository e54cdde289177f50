// none, fp16, bf16 (a dense message of wire.h); int8, int4 (quantise.h); hadamard-int4 (int4 blocks of the coefficients
// of tiles of 32); aq: the first tensor whole as fp32, then int4 blocks of the change against what the receiver holds.
#include <algorithm>
#include <cmath>

#include "core/compress/codec_rows.h"
#include "core/compress/quantise.h"

namespace fusion::compress::rows {
namespace {

template <ValueFormat format>
void encode_as(Values x, const MethodOptions&, TensorState& state, CodecWorkspace&, Out out, std::span<float>) {
  append_dense_message(x, DType::fp32, state.shape, format, out);
}

std::optional<PositionalRandom> random_of(const MethodOptions& options, const TensorState& state) {
  if (!options.stochastic) return {};
  return PositionalRandom(options.seed, state.step);
}

template <BlockFormat format>
void encode_blocks(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace&, Out out,
                   std::span<float> decoded) {
  write_blocks(x, format, random_of(options, state), out, decoded);
}

template <BlockFormat format>
void decode_blocks(std::span<const std::byte> payload, std::uint64_t, TensorState&, CodecWorkspace&,
                   std::span<float> out) {
  PayloadReader in(payload);
  read_blocks(in, format, out);
  in.finish();
}

constexpr std::size_t tile = 32;
static_assert(tile == int4_blocks.block);

/// The orthonormal Walsh-Hadamard transform of each whole tile, its own inverse; elements after the last whole tile
/// stay.
void transform_tiles(std::span<float> x) {
  const float unit = 1 / std::sqrt(static_cast<float>(tile));
  for (std::size_t at = 0; at + tile <= x.size(); at += tile) {
    float* t = x.data() + at;
    for (std::size_t i = 0; i < tile; ++i) t[i] *= unit;  // first, so that no sum overflows
    for (std::size_t half = 1; half < tile; half *= 2)
      for (std::size_t i = 0; i < tile; i += 2 * half)
        for (std::size_t j = i; j < i + half; ++j) {
          const float a = t[j], b = t[j + half];
          t[j] = a + b;
          t[j + half] = a - b;
        }
  }
}

void encode_hadamard(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace& ws, Out out,
                     std::span<float> decoded) {
  ws.next.reserve(x.size());
  const auto coefficients = ws.next.first(x.size());
  std::copy(x.begin(), x.end(), coefficients.begin());
  transform_tiles(coefficients);
  write_blocks(coefficients, int4_blocks, random_of(options, state), out, decoded);
}

void decode_hadamard(std::span<const std::byte> payload, std::uint64_t, TensorState&, CodecWorkspace&,
                     std::span<float> out) {
  PayloadReader in(payload);
  read_blocks(in, int4_blocks, out);
  in.finish();
  transform_tiles(out);
}

/// What both ends hold after a change: the same sums, so the same bits.
void add_reference(const TensorState& state, std::span<float> change) {
  for (std::size_t i = 0; i < change.size(); ++i) change[i] += state.reference[i];
}

void encode_change(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace& ws, Out out,
                   std::span<float> decoded) {
  if (state.step == 0) {
    append(out, x);
    std::copy(x.begin(), x.end(), decoded.begin());
    return;
  }
  ws.next.reserve(x.size());
  const auto change = ws.next.first(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) change[i] = x[i] - state.reference[i];
  if (kernels(options.target).max_magnitude(change.data(), change.size()) >= infinity_bits)
    throw RuntimeFault("aq: a change is beyond fp32");
  write_blocks(change, int4_blocks, random_of(options, state), out, decoded);
  add_reference(state, decoded);
}

void decode_change(std::span<const std::byte> payload, std::uint64_t step, TensorState& state, CodecWorkspace&,
                   std::span<float> out) {
  PayloadReader in(payload);
  if (step == 0) {
    in.fill(out);
    return in.finish();
  }
  if (state.reference.size() != out.size()) throw RuntimeFault("aq: the state holds no reference");
  read_blocks(in, int4_blocks, out);
  in.finish();
  add_reference(state, out);
}

template <ValueFormat format>
WireSize dense_size(const Shape& shape, const MethodOptions&) {
  return dense_message_size(shape, format);
}
template <BlockFormat format>
WireSize blocks_size(const Shape& shape, const MethodOptions&) {
  return exactly(block_bytes(elements_of(shape), format));
}
WireSize change_size(const Shape& shape, const MethodOptions&) {
  const std::uint64_t n = elements_of(shape), change = block_bytes(n, int4_blocks);
  return {change, std::max(change, 4 * n), n == 0};
}

double exact(const Shape&, const MethodOptions&) { return 0; }
double half(const Shape&, const MethodOptions&) { return 0x1p-21; }   // 11 bits: (2^-11)^2, and what the scale flushes
double brain(const Shape&, const MethodOptions&) { return 0x1p-15; }  // 8 bits: (2^-8)^2
template <BlockFormat format>
double blocks(const Shape&, const MethodOptions&) {
  return nearest_constant(format) * 1.0001;  // fp32 arithmetic on the way
}

}  // namespace

void decode_message(std::span<const std::byte> payload, std::uint64_t, TensorState& state, CodecWorkspace& ws,
                    std::span<float> out) {
  read_tensor(payload, state.shape, out, ws.received);
}

const MethodRow none{
    .method = Method::none,
    .name = "none",
    .help = "fp32 as it is",
    .guarantee = Guarantee::exact,
    .constant = exact,
    .feedback = false,
    .reference = false,
    .payload_size = dense_size<ValueFormat::fp32>,
    .passes = {9, 9},
    .encode = encode_as<ValueFormat::fp32>,
    .decode = decode_message,
};
const MethodRow fp16{
    .method = Method::fp16,
    .name = "fp16",
    .help = "IEEE half precision under a common scale",
    .guarantee = Guarantee::contraction,
    .constant = half,
    .feedback = false,
    .reference = false,
    .payload_size = dense_size<ValueFormat::fp16>,
    .passes = {6.6, 5},
    .encode = encode_as<ValueFormat::fp16>,
    .decode = decode_message,
};
const MethodRow bf16{
    .method = Method::bf16,
    .name = "bf16",
    .help = "bfloat16",
    .guarantee = Guarantee::contraction,
    .constant = brain,
    .feedback = false,
    .reference = false,
    .payload_size = dense_size<ValueFormat::bf16>,
    .passes = {9, 5},
    .encode = encode_as<ValueFormat::bf16>,
    .decode = decode_message,
};
const MethodRow int8{
    .method = Method::int8,
    .name = "int8",
    .help = "8-bit integers, a scale per 256 elements",
    .guarantee = Guarantee::contraction,
    .constant = blocks<int8_blocks>,
    .feedback = false,
    .reference = false,
    .payload_size = blocks_size<int8_blocks>,
    .passes = {5.3, 3.2},
    .encode = encode_blocks<int8_blocks>,
    .decode = decode_blocks<int8_blocks>,
};
const MethodRow int4{
    .method = Method::int4,
    .name = "int4",
    .help = "4-bit integers, a scale per 32 elements",
    .guarantee = Guarantee::contraction,
    .constant = blocks<int4_blocks>,
    .feedback = false,
    .reference = false,
    .payload_size = blocks_size<int4_blocks>,
    .passes = {7, 4.5},
    .encode = encode_blocks<int4_blocks>,
    .decode = decode_blocks<int4_blocks>,
};
const MethodRow hadamard_int4{
    .method = Method::hadamard_int4,
    .name = "hadamard-int4",
    .help = "4-bit integers after a Hadamard transform of tiles, which spreads outliers (arXiv 2506.01352)",
    .guarantee = Guarantee::contraction,
    .constant = blocks<int4_blocks>,
    .feedback = false,
    .reference = false,
    .payload_size = blocks_size<int4_blocks>,
    .passes = {16, 11},
    .encode = encode_hadamard,
    .decode = decode_hadamard,
};
const MethodRow aq{
    .method = Method::aq,
    .name = "aq",
    .help = "4-bit change of an activation against what the receiver holds (arXiv 2206.01299)",
    .guarantee = Guarantee::contraction,
    .constant = blocks<int4_blocks>,
    .feedback = false,
    .reference = true,
    .payload_size = change_size,
    .passes = {16, 10},
    .encode = encode_change,
    .decode = decode_change,
};

}  // namespace fusion::compress::rows
