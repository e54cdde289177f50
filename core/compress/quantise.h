// Blockwise integer quantisation: per block of elements one fp32 scale, largest magnitude / levels, and per element the
// nearest multiple of it. A block of zeros has scale 0 and stays zero.
//
// Layout: the blocks' scales (fp32 each, the last block may be short), then the codes: int8, or two's complement
// nibbles, the first element in the low half.
//
// Rounding to nearest errs by at most scale / 2 per element, so that in a block of B elements
// ||x - C(x)||^2 <= B (max / (2 levels))^2 <= B / (4 levels^2) ||x||^2.
#pragma once

#include <optional>

#include "core/compress/payload.h"

namespace fusion::compress {

struct BlockFormat {
  std::size_t block;  ///< B
  int levels;         ///< 127 in a byte, 7 in a nibble
};
inline constexpr BlockFormat int8_blocks{256, 127}, int4_blocks{32, 7};

constexpr double nearest_constant(BlockFormat f) { return static_cast<double>(f.block) / (4.0 * f.levels * f.levels); }

/// Bytes of both parts.
constexpr std::uint64_t block_bytes(std::uint64_t n, BlockFormat f) {
  const std::uint64_t blocks = n / f.block + (n % f.block != 0);
  return 4 * blocks + (f.levels > 7 ? n : n / 2 + n % 2);
}

/// Rounds at random where a generator is given: the mean is then the value. `decoded` receives what the reader will
/// see, unless it is empty.
void write_blocks(std::span<const float> x, BlockFormat, const std::optional<PositionalRandom>&,
                  std::vector<std::byte>& out, std::span<float> decoded);
void read_blocks(PayloadReader&, BlockFormat, std::span<float> out);

}  // namespace fusion::compress
