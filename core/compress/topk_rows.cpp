#include "core/compress/topk_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fusion::compress {

void keep_of_rows(std::span<float> x, std::uint64_t k, std::uint64_t rows, std::vector<std::uint64_t>& order) {
  const auto magnitude = [&](std::uint64_t i) {
    return std::isnan(x[i]) ? std::numeric_limits<float>::infinity() : std::abs(x[i]);
  };
  const auto before = [&](std::uint64_t a, std::uint64_t b) {
    const float of_a = magnitude(a), of_b = magnitude(b);
    return of_a != of_b ? of_a > of_b : a < b;
  };
  for (std::uint64_t r = 0, begin = 0; r < rows; ++r) {
    const std::uint64_t length = x.size() / rows + (r < x.size() % rows);
    const std::uint64_t share = std::min(length, k / rows + (r < k % rows));
    order.resize(length);
    std::iota(order.begin(), order.end(), begin);
    const auto kept = order.begin() + static_cast<std::ptrdiff_t>(share);
    std::nth_element(order.begin(), kept, order.end(), before);
    for (auto i = kept; i != order.end(); ++i) x[*i] = 0;
    begin += length;
  }
}

}  // namespace fusion::compress
