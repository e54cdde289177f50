// Louvain: known networks, a brute-force optimum, and what a planner relies on.
#include "core/plan/louvain.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

namespace fusion {
namespace {

/// Groups of `size` nodes: `inside` between members, `across` between groups.
SquareMatrix planted(std::size_t groups, std::size_t size, double inside, double across) {
  SquareMatrix w(groups * size);
  for (std::size_t i = 0; i < w.size; ++i)
    for (std::size_t j = 0; j < w.size; ++j)
      if (i != j) w.at(i, j) = i / size == j / size ? inside : across;
  return w;
}

std::size_t num_communities(const std::vector<std::size_t>& community) {
  return std::set<std::size_t>(community.begin(), community.end()).size();
}

// Two triangles joined by one edge: 7 edges, so W = 14. Each triangle holds in = 6 and tot = 7:
// Q = 2 (6/14 - (7/14)^2) = 5/14.
TEST(Louvain, TwoTriangles) {
  SquareMatrix w(6);
  for (const auto& [a, b] : std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {0, 2}, {3, 4}, {4, 5}, {3, 5}, {2, 3}})
    w.at(static_cast<std::size_t>(a), static_cast<std::size_t>(b)) = 1;  // one direction: symmetrised
  const auto community = louvain(w, 1);
  EXPECT_EQ(community, (std::vector<std::size_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_NEAR(modularity(w, community, 1), 5.0 / 14, 1e-12);
}

// Zachary's karate club (1977), 34 members, 78 friendships: the best modularity known is 0.4198; the method is
// published to reach 0.4188.
TEST(Louvain, KarateClub) {
  const std::vector<std::vector<std::size_t>> friends = {{1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31},
                                                         {2, 3, 7, 13, 17, 19, 21, 30},
                                                         {3, 7, 8, 9, 13, 27, 28, 32},
                                                         {7, 12, 13},
                                                         {6, 10},
                                                         {6, 10, 16},
                                                         {16},
                                                         {},
                                                         {30, 32, 33},
                                                         {33},
                                                         {},
                                                         {},
                                                         {},
                                                         {33},
                                                         {32, 33},
                                                         {32, 33},
                                                         {},
                                                         {},
                                                         {32, 33},
                                                         {33},
                                                         {32, 33},
                                                         {},
                                                         {32, 33},
                                                         {25, 27, 29, 32, 33},
                                                         {25, 27, 31},
                                                         {31},
                                                         {29, 33},
                                                         {33},
                                                         {31, 33},
                                                         {32, 33},
                                                         {32, 33},
                                                         {32, 33},
                                                         {33},
                                                         {}};
  SquareMatrix w(34);
  std::size_t edges = 0;
  for (std::size_t i = 0; i < 34; ++i)
    for (const std::size_t j : friends[i]) w.at(i, j) = 1, ++edges;
  ASSERT_EQ(edges, 78u);
  EXPECT_GE(modularity(w, louvain(w, 1), 1), 0.415);
  EXPECT_LE(modularity(w, louvain(w, 1), 1), 0.4199);
}

TEST(Louvain, FindsSitesByBandwidth) {
  const auto community = louvain(planted(5, 7, 1.25e9, 1e6), 1);
  for (std::size_t i = 0; i < community.size(); ++i) EXPECT_EQ(community[i], i / 7);
}

TEST(Louvain, ResolutionGoesFromOneClusterToSingleNodes) {
  const SquareMatrix w = planted(4, 4, 10, 1);
  EXPECT_EQ(num_communities(louvain(w, 0.01)), 1u);
  EXPECT_EQ(num_communities(louvain(w, 1)), 4u);
  EXPECT_EQ(num_communities(louvain(w, 100)), 16u);
}

// A node that stands for a group of g members has the sum of its members' weights and their mutual ones on its
// diagonal; modularity must not see the difference.
TEST(Louvain, GroupsStandForTheirMembers) {
  const SquareMatrix fine = planted(3, 4, 8, 1);
  SquareMatrix coarse(6);
  for (std::size_t i = 0; i < 12; ++i)
    for (std::size_t j = 0; j < 12; ++j) coarse.at(i / 2, j / 2) += fine.at(i, j);
  const auto of_pairs = louvain(coarse, 1), of_members = louvain(fine, 1);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(of_members[i], of_pairs[i / 2]);
  EXPECT_NEAR(modularity(coarse, of_pairs, 1), modularity(fine, of_members, 1), 1e-12);
}

double best_modularity(const SquareMatrix& w, double resolution) {
  std::vector<std::size_t> community(w.size);
  double best = -1;
  const std::function<void(std::size_t, std::size_t)> assign = [&](std::size_t i, std::size_t used) {
    if (i == w.size) {
      best = std::max(best, modularity(w, community, resolution));
      return;
    }
    for (std::size_t c = 0; c <= used; ++c) {
      community[i] = c;
      assign(i + 1, std::max(used, c + 1));
    }
  };
  assign(0, 0);
  return best;
}

TEST(Louvain, NearTheBestOfAllPartitionsOfSmallNetworks) {
  std::mt19937_64 random(7);
  int optimal = 0;
  constexpr int cases = 40;
  for (int i = 0; i < cases; ++i) {
    SquareMatrix w(7);
    for (double& value : w.values) value = random() % 3 == 0 ? std::uniform_real_distribution(0.0, 10.0)(random) : 0;
    const double resolution = std::uniform_real_distribution(0.5, 1.5)(random);
    const double best = best_modularity(w, resolution), found = modularity(w, louvain(w, resolution), resolution);
    EXPECT_LE(found, best + 1e-12);
    EXPECT_GE(found, best - 0.1);
    optimal += found > best - 1e-9;
  }
  EXPECT_GE(optimal, cases / 2);
}

TEST(Louvain, OddNetworks) {
  EXPECT_TRUE(louvain(SquareMatrix(0), 1).empty());
  EXPECT_EQ(louvain(SquareMatrix(1), 1), (std::vector<std::size_t>{0}));
  EXPECT_EQ(louvain(SquareMatrix(3), 1), (std::vector<std::size_t>{0, 1, 2}));  // no link at all
}

TEST(Louvain, ScaleOfTheWeightsDoesNotMatter) {
  std::mt19937_64 random(9);
  SquareMatrix w(30);
  for (double& value : w.values) value = std::uniform_real_distribution(0.0, 1.0)(random);
  SquareMatrix large = w;
  for (double& value : large.values) value *= 1073741824.0;  // a power of two: no rounding
  EXPECT_EQ(louvain(w, 1), louvain(large, 1));
}

}  // namespace
}  // namespace fusion
