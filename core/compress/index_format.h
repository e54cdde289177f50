// How the positions of a sparse message are written. All take ascending indices below n.
//
//   raw32, raw64  little-endian integers, 4 or 8 bytes each
//   byte_delta    the gap to the previous index, less one; 255 means "255 more, and go on". Fast; about 1.08 bytes per
//                 index at 1 % density
//   rice          u64 block length L; one byte per block of L elements, its Rice parameter p <= 31; then a bit stream,
//                 lowest bit first. A gap g is g >> p zeros, a one, and the low p bits of g, where p is of the block in
//                 which the gap starts. 24 zeros and a one escape: 64 bits of g follow. Unused bits of the last byte
//                 are zero. L is a row of the tensor where rows differ in density, else long enough for the parameters
//                 to cost nothing
//   bitmap        ceil(n / 8) bytes, bit i % 8 of byte i / 8 set for a kept element, unused bits zero
//
// Readers take hostile bytes: they read inside their section only, allocate nothing, and leave no byte unread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fusion::compress {

enum class IndexFormat : std::uint8_t { none, raw32, raw64, byte_delta, rice, bitmap };

/// Bytes that a format takes for `kept` of `elements` indices, before they are known.
struct IndexBytes {
  double expected;     ///< on average, where any support is as likely as any other
  std::uint64_t most;  ///< for any support
};
IndexBytes index_bytes(IndexFormat, std::uint64_t elements, std::uint64_t kept);

/// Bytes that a format takes for these indices; exact but for rice, which is estimated. `row` is the length of a row of
/// the tensor, 1 or more.
std::uint64_t index_bytes(IndexFormat, std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row);

/// Appends the section to `out`.
void write_index(IndexFormat, std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row,
                 std::vector<std::byte>& out);

/// Fills `index` from a section. Throws RuntimeFault unless the section holds exactly that many indices, ascending and
/// below `elements`, and nothing else.
void read_index(IndexFormat, std::span<const std::byte> section, std::uint64_t elements,
                std::span<std::uint64_t> index);

}  // namespace fusion::compress
