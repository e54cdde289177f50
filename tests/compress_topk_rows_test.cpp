// Top-k by rows against a sort of each row.
#include "core/compress/topk_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace fusion::compress {
namespace {

std::vector<float> kept(std::vector<float> x, std::uint64_t k, std::uint64_t rows) {
  std::vector<std::uint64_t> order;
  keep_of_rows(x, k, rows, order);
  return x;
}

std::vector<float> naive(std::vector<float> x, std::size_t share, std::size_t length) {
  for (std::size_t begin = 0; begin < x.size(); begin += length) {
    std::vector<std::size_t> order(length);
    std::iota(order.begin(), order.end(), begin);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
    for (std::size_t i = share; i < length; ++i) x[order[i]] = 0;
  }
  return x;
}

TEST(TopkRows, IsTheSortOfEachRow) {
  std::mt19937_64 random(1);
  for (const std::size_t length : {1, 2, 7, 128})
    for (std::size_t share = 0; share <= length; share += 1 + length / 5) {
      std::vector<float> x(6 * length);
      for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 9)) - 4;  // with many ties
      EXPECT_EQ(kept(x, 6 * share, 6), naive(x, share, length)) << length << ' ' << share;
    }
}

TEST(TopkRows, TheFirstRowsTakeTheRest) {
  // 5 of 3 rows of 4: 2, 2 and 1.
  EXPECT_EQ(kept({1, 2, 3, 4, -8, -7, -6, -5, 9, 9, 9, 9}, 5, 3),
            (std::vector<float>{0, 0, 3, 4, -8, -7, 0, 0, 9, 0, 0, 0}));
  EXPECT_EQ(kept({1, 2, 3, 4, 5}, 2, 2), (std::vector<float>{0, 0, 3, 0, 5}));  // rows of 3 and 2
  EXPECT_EQ(kept({1, -2}, 9, 1), (std::vector<float>{1, -2}));                  // more than there are
}

TEST(TopkRows, NotANumberStays) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(kept({1, nan, 3, 4}, 1, 1)[1]));
}

}  // namespace
}  // namespace fusion::compress
