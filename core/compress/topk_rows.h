// Top-k by rows: each row of a tensor keeps as many elements as any other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fusion::compress {

/// Sets to zero all but k elements of x, which the rows share as evenly as k allows: of each the largest |x|, ties to
/// the lowest index. Rows are x.size() / rows long, the first ones one longer where that leaves a rest. A NaN counts as
/// the largest, so that whoever codes x finds it. `order` is scratch.
void keep_of_rows(std::span<float> x, std::uint64_t k, std::uint64_t rows, std::vector<std::uint64_t>& order);

}  // namespace fusion::compress
