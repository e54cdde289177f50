#include "core/compress/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

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

constexpr std::size_t largest_block = int8_blocks.block;
static_assert(int4_blocks.block <= largest_block && int4_blocks.block % 2 == 0);
using Codes = std::array<std::int8_t, largest_block>;

/// The codes of one block, which begins at a byte.
void pack(const Codes& codes, std::size_t length, BlockFormat format, std::byte* to) {
  if (format.levels > 7) {
    std::memcpy(to, codes.data(), length);
    return;
  }
  for (std::size_t i = 0; i + 2 <= length; i += 2)
    to[i / 2] = static_cast<std::byte>((codes[i] & 15) | (codes[i + 1] & 15) << 4);
  if (length % 2 == 1) to[length / 2] = static_cast<std::byte>(codes[length - 1] & 15);
}

void unpack(const std::byte* from, std::size_t length, BlockFormat format, Codes& codes) {
  if (format.levels > 7) {
    std::memcpy(codes.data(), from, length);
    return;
  }
  const auto extended = [](int nibble) { return static_cast<std::int8_t>((nibble ^ 8) - 8); };
  for (std::size_t i = 0; i + 2 <= length; i += 2) {
    codes[i] = extended(static_cast<int>(from[i / 2]) & 15);
    codes[i + 1] = extended(static_cast<int>(from[i / 2]) >> 4);
  }
  if (length % 2 == 1) codes[length - 1] = extended(static_cast<int>(from[length / 2]) & 15);
}

/// Bytes of the codes before element i, the first of a block.
std::size_t code_bytes(std::size_t i, BlockFormat format) { return format.levels > 7 ? i : (i + 1) / 2; }

}  // namespace

void write_blocks(std::span<const float> x, BlockFormat format, const std::optional<PositionalRandom>& random,
                  std::vector<std::byte>& out, std::span<float> decoded) {
  const std::size_t start = out.size(), blocks = blocks_of(x.size(), format.block);
  out.resize(start + block_bytes(x.size(), format));
  std::byte* const scales = out.data() + start;
  std::byte* const packed = scales + blocks * sizeof(float);
  Codes codes;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = b * format.block, length = std::min(format.block, x.size() - first);
    const float scale = scale_of(x.subspan(first, length), format.levels);
    std::memcpy(scales + b * sizeof(float), &scale, sizeof scale);
    code_block(x.subspan(first, length), scale, format.levels, first, random, codes.data());
    pack(codes, length, format, packed + code_bytes(first, format));
    for (std::size_t i = 0; i < length && !decoded.empty(); ++i)
      decoded[first + i] = static_cast<float>(codes[i]) * scale;
  }
}

void read_blocks(PayloadReader& in, BlockFormat format, std::span<float> out) {
  const std::size_t blocks = blocks_of(out.size(), format.block);
  const std::byte* const scales = in.bytes(blocks * sizeof(float)).data();
  const std::byte* const packed = in.bytes(code_bytes(out.size(), format)).data();
  Codes codes;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = b * format.block, length = std::min(format.block, out.size() - first);
    float scale = 0;
    std::memcpy(&scale, scales + b * sizeof(float), sizeof scale);
    if (!(scale >= 0)) throw RuntimeFault("coded tensor: a block's scale is negative or not a number");
    unpack(packed + code_bytes(first, format), length, format, codes);
    for (std::size_t i = 0; i < length; ++i) out[first + i] = static_cast<float>(codes[i]) * scale;
  }
}

}  // namespace fusion::compress
