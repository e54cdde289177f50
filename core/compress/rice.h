// Golomb-Rice coding of ascending indices, a parameter per block of elements (layout: index_format.h). For gaps of a
// uniform support it comes within 1.5 % of the entropy log2 C(n, k) / k; where rows differ in density, a parameter per
// row goes below that bound. (Rice and Plaunt, IEEE Trans. Comm. 19(6), 1971.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fusion::compress {

/// What `kept` indices of `elements` take on average where any support is as likely as any other.
double expected_rice_bytes(std::uint64_t elements, std::uint64_t kept);

/// What `kept` indices of `elements` take on average where any support is as likely as any other; and the most that
/// any support takes.
double expected_rice_bytes(std::uint64_t elements, std::uint64_t kept);
std::uint64_t most_rice_bytes(std::uint64_t kept);

/// An estimate from the blocks' mean gaps, good to about 2 % where gaps are spread as chance spreads them.
std::uint64_t rice_bytes(std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row);
void write_rice(std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row,
                std::vector<std::byte>& out);
/// Throws RuntimeFault where the section does not hold exactly these many indices below `elements`.
void read_rice(std::span<const std::byte> section, std::uint64_t elements, std::span<std::uint64_t> index);

}  // namespace fusion::compress
