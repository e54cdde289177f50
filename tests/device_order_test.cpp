// Open paths against all permutations.
#include "core/plan/device_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "core/platform/platform.h"

namespace fusion {
namespace {

SquareMatrix random_costs(std::mt19937_64& random, std::size_t n) {
  SquareMatrix costs(n);
  for (double& value : costs.values) value = std::uniform_real_distribution(1.0, 10.0)(random);
  return costs;
}

/// Places in the plane: symmetric costs with a structure.
SquareMatrix planar_costs(std::mt19937_64& random, std::size_t n) {
  std::vector<std::pair<double, double>> places(n);
  for (auto& [x, y] : places) {
    x = std::uniform_real_distribution(0.0, 1.0)(random);
    y = std::uniform_real_distribution(0.0, 1.0)(random);
  }
  SquareMatrix costs(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      costs.at(i, j) = std::hypot(places[i].first - places[j].first, places[i].second - places[j].second);
  return costs;
}

double least_of_all_permutations(const SquareMatrix& costs) {
  std::vector<std::size_t> path(costs.size);
  std::iota(path.begin(), path.end(), std::size_t{0});
  double least = std::numeric_limits<double>::infinity();
  do least = std::min(least, path_cost(costs, path));
  while (std::next_permutation(path.begin(), path.end()));
  return least;
}

void expect_visits_all(const std::vector<std::size_t>& path, std::size_t n) {
  std::vector<std::size_t> sorted = path, all(n);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(sorted, all);
}

TEST(DeviceOrder, HeldKarpIsExact) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    const SquareMatrix costs = random_costs(random, 1 + static_cast<std::size_t>(i) % 8);
    const auto path = held_karp_path(costs);
    expect_visits_all(path, costs.size);
    EXPECT_NEAR(path_cost(costs, path), least_of_all_permutations(costs), 1e-12);
  }
}

TEST(DeviceOrder, LocalSearchIsNearTheOptimum) {
  std::mt19937_64 random(2);
  double sum = 0;
  constexpr int cases = 60;
  for (int i = 0; i < cases; ++i) {
    const SquareMatrix costs = i % 2 ? random_costs(random, 10) : planar_costs(random, 10);
    const auto path = local_search_path(costs);
    expect_visits_all(path, costs.size);
    const double ratio = path_cost(costs, path) / path_cost(costs, held_karp_path(costs));
    EXPECT_GE(ratio, 1 - 1e-12);
    sum += ratio;
  }
  EXPECT_LE(sum / cases, 1.05);
}

// A one-way ring: each step costs 1, the way back 100. Its best open path follows the ring.
TEST(DeviceOrder, DirectionMatters) {
  for (const std::size_t n : {5, 20}) {
    SquareMatrix costs(n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) costs.at(i, j) = (i + 1) % n == j ? 1 : 100;
    EXPECT_DOUBLE_EQ(path_cost(costs, shortest_open_path(costs)), static_cast<double>(n - 1));
  }
}

// Places on a line are visited from one end to the other, at the price of the distance between the ends.
TEST(DeviceOrder, LargePathsFollowALine) {
  constexpr std::size_t n = 200;
  std::vector<double> x(n);
  std::iota(x.begin(), x.end(), 0.0);
  std::mt19937_64 random(3);
  std::shuffle(x.begin(), x.end(), random);
  SquareMatrix costs(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) costs.at(i, j) = std::abs(x[i] - x[j]);
  EXPECT_LE(path_cost(costs, shortest_open_path(costs)), 1.1 * (n - 1));
}

// DT-FM's world-wide case: eight regions as data-parallel groups, the pipeline goes from one to the next. Between two
// regions an edge costs 2 (alpha + c / beta) with c = 0.471e9 bytes: its published check value for the best open path
// is 54.788 s.
TEST(DeviceOrder, DtFmBestPathThroughTheRegions) {
  const Platform platform = load_platform("dtfm-5");
  ASSERT_EQ(platform.sites.size(), 8u);
  const auto device = [&](std::size_t site) {
    return platform.hosts[platform.sites[site].hosts.front().index()].devices.front();
  };
  SquareMatrix costs(8);
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b)
      if (a != b) costs.at(a, b) = 2 * transfer_time(platform, device(a), device(b), Bytes(471'000'000)).value;
  std::vector<std::string> names;
  for (const std::size_t site : shortest_open_path(costs)) names.push_back(platform.sites[site].name);
  if (names.front() != "Oregon") std::ranges::reverse(names);  // symmetric: either way round
  EXPECT_THAT(names,
              testing::ElementsAre("Oregon", "Virginia", "London", "Frankfurt", "Ireland", "Ohio", "Tokyo", "Seoul"));
  EXPECT_NEAR(path_cost(costs, shortest_open_path(costs)), 54.788, 0.0005);
  EXPECT_NEAR(path_cost(costs, local_search_path(costs)), 54.788, 0.0005);
}

TEST(DeviceOrder, OddSizes) {
  EXPECT_TRUE(shortest_open_path(SquareMatrix(0)).empty());
  EXPECT_EQ(shortest_open_path(SquareMatrix(1)), (std::vector<std::size_t>{0}));
  EXPECT_TRUE(local_search_path(SquareMatrix(0)).empty());
  EXPECT_EQ(local_search_path(SquareMatrix(1)), (std::vector<std::size_t>{0}));
  expect_visits_all(local_search_path(SquareMatrix(2)), 2);
  expect_visits_all(local_search_path(SquareMatrix(13)), 13);  // all costs zero
}

}  // namespace
}  // namespace fusion
