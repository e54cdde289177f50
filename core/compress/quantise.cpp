#include "core/compress/quantise.h"

#include <algorithm>
#include <cmath>

#include "core/compress/kernels.h"

namespace fusion::compress {
namespace {

std::size_t blocks_of(std::size_t n, std::size_t block) { return n / block + (n % block != 0); }

float largest(std::span<const float> x) {
  std::uint32_t most = 0;
  for (const float v : x) most = std::max(most, magnitude_bits(v));
  return std::bit_cast<float>(most);
}

/// max / levels; not rounded down to zero where the maximum is subnormal, nor up so that the last level is infinite.
float scale_of(std::span<const float> x, int levels) {
  const float most = largest(x), top = static_cast<float>(levels);
  const float scale = std::max(most / top, std::min(most, std::bit_cast<float>(1u)));
  return std::isfinite(scale * top) ? scale : std::nextafter(scale, 0.0f);
}

/// To the nearest integer, ties to even, for |x| < 2^22: at 1.5 2^23 the spacing of floats is 1. The compiler makes
/// vector code of it, and does not of std::nearbyint.
float nearest(float x) {
  constexpr float shift = 0x1.8p23f;
  return (x + shift) - shift;
}

float rounded(float multiple, std::uint64_t i, const std::optional<PositionalRandom>& random) {
  return random ? std::floor(multiple + random->uniform(i)) : nearest(multiple);
}

void code_block(std::span<const float> x, float scale, int levels, std::uint64_t first,
                const std::optional<PositionalRandom>& random, std::int8_t* codes) {
  const auto limit = static_cast<float>(levels);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float multiple = scale == 0 ? 0.0f : std::clamp(x[i] / scale, -limit, limit);
    codes[i] = static_cast<std::int8_t>(std::min(rounded(multiple, first + i, random), limit));
  }
}

void pack(std::span<const std::int8_t> codes, BlockFormat format, std::vector<std::byte>& out) {
  if (format.levels > 7) return append(out, codes);
  const std::size_t start = out.size();
  out.resize(start + (codes.size() + 1) / 2);
  for (std::size_t i = 0; i < codes.size(); ++i)
    out[start + i / 2] |= static_cast<std::byte>((codes[i] & 15) << (i % 2 * 4));
}

std::int8_t code_at(std::span<const std::byte> bytes, BlockFormat format, std::size_t i) {
  if (format.levels > 7) return static_cast<std::int8_t>(bytes[i]);
  const int nibble = static_cast<int>(bytes[i / 2]) >> (i % 2 * 4) & 15;
  return static_cast<std::int8_t>(nibble >= 8 ? nibble - 16 : nibble);
}

}  // namespace

void write_blocks(std::span<const float> x, BlockFormat format, const std::optional<PositionalRandom>& random,
                  std::vector<std::byte>& out, std::span<float> decoded) {
  std::vector<float> scales(blocks_of(x.size(), format.block));
  std::vector<std::int8_t> codes(x.size());
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const std::size_t first = b * format.block, length = std::min(format.block, x.size() - first);
    scales[b] = scale_of(x.subspan(first, length), format.levels);
    code_block(x.subspan(first, length), scales[b], format.levels, first, random, codes.data() + first);
    for (std::size_t i = first; i < first + length && !decoded.empty(); ++i)
      decoded[i] = static_cast<float>(codes[i]) * scales[b];
  }
  append(out, std::span<const float>(scales));
  pack(codes, format, out);
}

void read_blocks(PayloadReader& in, BlockFormat format, std::span<float> out) {
  std::vector<float> scales(blocks_of(out.size(), format.block));
  in.fill(std::span<float>(scales));
  for (const float s : scales)
    if (!(s >= 0)) throw RuntimeFault("coded tensor: a block's scale is negative or not a number");
  const auto codes = in.bytes(format.levels > 7 ? out.size() : (out.size() + 1) / 2);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(code_at(codes, format, i)) * scales[i / format.block];
}

}  // namespace fusion::compress
