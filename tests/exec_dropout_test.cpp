#include "exec/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace fusion::exec {
namespace {

double kept_share(const std::vector<float>& mask) {
  return static_cast<double>(std::ranges::count_if(mask, [](float factor) { return factor != 0; })) /
         static_cast<double>(mask.size());
}

/// Of n draws the kept share has the standard deviation sqrt(p (1 - p) / n): 0.0005 at most for a million. Five of
/// these are allowed.
TEST(Dropout, ZeroesTheRateAndScalesTheRestToMeanOne) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const std::vector<float> mask = dropout_mask({7, 1}, 2, OpId(3), rate, 1'000'000);
    EXPECT_NEAR(kept_share(mask), 1 - rate, 5 * std::sqrt(rate * (1 - rate) / 1e6));
    for (const float factor : mask) ASSERT_TRUE(factor == 0 || factor == static_cast<float>(1 / (1 - rate)));
  }
}

TEST(Dropout, RateZeroKeepsAll) { EXPECT_EQ(dropout_mask({7, 1}, 2, OpId(3), 0, 5), (std::vector<float>(5, 1.0F))); }

/// The mask of fewer elements is the beginning of that of more, so no rank's share of work can show in it.
TEST(Dropout, FollowsFromPositionAlone) {
  const std::vector<float> longer = dropout_mask({7, 1}, 2, OpId(3), 0.3, 1001);
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{999}, std::size_t{1000}}) {
    const std::vector<float> shorter = dropout_mask({7, 1}, 2, OpId(3), 0.3, n);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin())) << n;
  }
}

/// Two independent masks at rate 1/2 agree in half of their places, deviation 0.5 / sqrt(n).
TEST(Dropout, SeedStepMicroBatchAndOpEachGiveAnother) {
  constexpr std::size_t n = 100'000;
  const std::vector<std::vector<float>> masks = {
      dropout_mask({7, 1}, 2, OpId(3), 0.5, n), dropout_mask({8, 1}, 2, OpId(3), 0.5, n),
      dropout_mask({7, 2}, 2, OpId(3), 0.5, n), dropout_mask({7, 1}, 3, OpId(3), 0.5, n),
      dropout_mask({7, 1}, 2, OpId(4), 0.5, n), dropout_mask({1, 7}, 2, OpId(3), 0.5, n),
      dropout_mask({7, 1}, 3, OpId(2), 0.5, n)};
  for (std::size_t a = 0; a < masks.size(); ++a)
    for (std::size_t b = a + 1; b < masks.size(); ++b) {
      double equal = 0;
      for (std::size_t i = 0; i < n; ++i) equal += masks[a][i] == masks[b][i];
      EXPECT_NEAR(equal / n, 0.5, 5 * 0.5 / std::sqrt(n)) << a << " and " << b;
    }
}

/// Neighbours are independent too: both halves of one draw, and draws side by side.
TEST(Dropout, NeighboursAreIndependent) {
  const std::vector<float> mask = dropout_mask({7, 1}, 2, OpId(3), 0.5, 200'001);
  for (const std::size_t distance : {1, 2, 3, 64}) {
    double equal = 0;
    for (std::size_t i = 0; i < 200'000 - distance; ++i) equal += mask[i] == mask[i + distance];
    EXPECT_NEAR(equal / static_cast<double>(200'000 - distance), 0.5, 5 * 0.5 / std::sqrt(2e5)) << distance;
  }
}

}  // namespace
}  // namespace fusion::exec
