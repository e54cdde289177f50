// none, fp16, bf16 (a dense message of wire.h); int8, int4 (quantise.h); hadamard-int4 (int4 blocks of the coefficients
// of tiles of 32); aq: the first tensor whole as fp32, then int4 blocks of the change against what the receiver holds.
#include <algorithm>
#include <cmath>

#include "core/compress/codec_rows.h"
#include "core/compress/quantise.h"

namespace fusion::compress::rows {
namespace {

template <ValueFormat format>
void encode_as(Values x, const MethodOptions&, TensorState& state, CodecWorkspace& ws, Out out, std::span<float>) {
  write_dense_message(x, DType::fp32, state.shape, format, ws.message);
  append(out, std::span<const std::byte>(ws.message));
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
  Message& message = ws.received;
  read_message(payload, message);
  if (message.shape != state.shape) throw RuntimeFault("coded tensor: its message is of another shape");
  scatter(message, out);
}

const MethodRow none{Method::none,  "none", "fp32 as it is", Guarantee::exact,
                     exact,         false,  false,           encode_as<ValueFormat::fp32>,
                     decode_message};
const MethodRow fp16{Method::fp16,
                     "fp16",
                     "IEEE half precision under a common scale",
                     Guarantee::contraction,
                     half,
                     false,
                     false,
                     encode_as<ValueFormat::fp16>,
                     decode_message};
const MethodRow bf16{Method::bf16,  "bf16", "bfloat16", Guarantee::contraction,
                     brain,         false,  false,      encode_as<ValueFormat::bf16>,
                     decode_message};
const MethodRow int8{Method::int8,
                     "int8",
                     "8-bit integers, a scale per 256 elements",
                     Guarantee::contraction,
                     blocks<int8_blocks>,
                     false,
                     false,
                     encode_blocks<int8_blocks>,
                     decode_blocks<int8_blocks>};
const MethodRow int4{Method::int4,
                     "int4",
                     "4-bit integers, a scale per 32 elements",
                     Guarantee::contraction,
                     blocks<int4_blocks>,
                     false,
                     false,
                     encode_blocks<int4_blocks>,
                     decode_blocks<int4_blocks>};
const MethodRow hadamard_int4{
    Method::hadamard_int4,
    "hadamard-int4",
    "4-bit integers after a Hadamard transform of tiles, which spreads outliers (arXiv 2506.01352)",
    Guarantee::contraction,
    blocks<int4_blocks>,
    false,
    false,
    encode_hadamard,
    decode_hadamard};
const MethodRow aq{Method::aq,
                   "aq",
                   "4-bit change of an activation against what the receiver holds (arXiv 2206.01299)",
                   Guarantee::contraction,
                   blocks<int4_blocks>,
                   false,
                   true,
                   encode_change,
                   decode_change};

}  // namespace fusion::compress::rows
