// The baseline placements, and what holds for every policy of the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/plan/linear_order.h"
#include "core/plan/policies.h"
#include "core/plan/policies_baseline.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

using testing::ElementsAre;

std::vector<Stage> place(const char* policy, const Graph& graph, const Costs& costs, const Platform& platform,
                         std::uint64_t seed = 1) {
  Schedule request;
  request.policy = policy;
  request.order = "1f1b";
  request.compress = "none";
  request.seed = seed;
  const Compression compression = parse_compression("none");
  return find_policy(policy).place({graph, costs, platform, request, compression});
}

std::vector<Stage> place(const char* policy, const Graph& graph, const Platform& platform, std::uint64_t seed = 1) {
  return place(policy, graph, estimate(graph), platform, seed);
}

/// Ops that work, per stage.
std::vector<std::size_t> sizes(const Graph& graph, const std::vector<Stage>& stages) {
  std::vector<std::size_t> counts;
  for (const Stage& stage : stages)
    counts.push_back(static_cast<std::size_t>(
        std::ranges::count_if(stage.ops, [&](OpId op) { return !graph.op(op).inputs.empty(); })));
  return counts;
}

Platform equal_devices(std::size_t n) { return star_platform(std::vector<double>(n, 1e9), BytesPerSecond(1e9)); }

// ceil(38 / 8) = 5 and floor(38 / 8) = 4: six stages of 5 and two of 4.
TEST(Golden, G8_EqualNumberOf38LayersOn8Devices) {
  const Graph graph = chain_graph(38);
  const auto counts = sizes(graph, place("equal-number", graph, equal_devices(8)));
  EXPECT_THAT(counts, ElementsAre(5, 5, 5, 5, 5, 5, 4, 4));
}

TEST(Golden, G9_EqualNumberOf10LayersOn3Devices) {
  const Graph graph = chain_graph(10);
  const auto stages = place("equal-number", graph, equal_devices(3));
  EXPECT_THAT(sizes(graph, stages), ElementsAre(4, 3, 3));
  EXPECT_NO_THROW(validate(schedule_of(graph, stages), graph, equal_devices(3), "x"));  // disjoint and complete
}

TEST(EqualNumber, SizesDifferByOneAtMostForAllSmallCases) {
  for (std::size_t layers = 1; layers <= 20; ++layers)
    for (std::size_t devices = 1; devices <= 24; ++devices) {
      const Graph graph = chain_graph(layers);
      const auto counts = sizes(graph, place("equal-number", graph, equal_devices(devices)));
      EXPECT_EQ(counts.size(), std::min(layers, devices));
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), layers);
      EXPECT_LE(*std::ranges::max_element(counts) - *std::ranges::min_element(counts), 1u);
    }
}

// 12 layers of 1 FLOP forward and 2 backward, speeds 1 : 2 : 3.
TEST(EqualCompute, WorkInProportionToSpeed) {
  const Graph graph = chain_graph(12);
  std::vector<double> forward(13, 1), backward(13, 2);
  forward[0] = backward[0] = 0;
  const Costs costs = flop_costs(forward, backward);
  EXPECT_THAT(sizes(graph, place("equal-compute", graph, costs, star_platform({1, 2, 3}, BytesPerSecond(1)))),
              ElementsAre(2, 4, 6));
}

// Costs 10, 1, 1, 1, 1, 10 on two equal devices: half of 24 is 12, so three layers each.
TEST(EqualCompute, CutsWhereTheWorkIs) {
  const Graph graph = chain_graph(6);
  const Costs costs = flop_costs({0, 10, 1, 1, 1, 1, 10}, {0, 20, 2, 2, 2, 2, 20});
  EXPECT_THAT(sizes(graph, place("equal-compute", graph, costs, star_platform({1, 1}, BytesPerSecond(1)))),
              ElementsAre(3, 3));
}

// One layer has all the work: every device still gets one, so that the baseline uses what it was given.
TEST(EqualCompute, EveryDeviceRunsSomething) {
  const Graph graph = chain_graph(5);
  for (std::size_t heavy = 1; heavy <= 5; ++heavy) {
    std::vector<double> work(6, 0);
    work[heavy] = 7;
    const auto counts = sizes(
        graph, place("equal-compute", graph, flop_costs(work, work), star_platform({1, 1, 5, 1}, BytesPerSecond(1))));
    EXPECT_EQ(counts.size(), 4u) << heavy;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), 5u) << heavy;
    EXPECT_GE(*std::ranges::min_element(counts), 1u) << heavy;
  }
}

// The speed that counts is what the device sustains in the training's dtype.
TEST(EqualCompute, SpeedIsSustainedAndOfTheDType) {
  const Graph graph = chain_graph(12);
  Platform platform = star_platform({1, 1}, BytesPerSecond(1));
  platform.gpus[0].sustained_flops = 0.2;
  platform.gpus[1].sustained_flops = 0.4;
  EXPECT_THAT(sizes(graph, place("equal-compute", graph, platform)), ElementsAre(testing::Lt(6), testing::Gt(6)));
}

TEST(Random, SeedDecides) {
  const Graph graph = chain_graph(20);
  const Platform platform = equal_devices(6);
  EXPECT_EQ(place("random", graph, platform, 7), place("random", graph, platform, 7));
  int different = 0;
  for (std::uint64_t seed = 8; seed < 18; ++seed)
    different += place("random", graph, platform, seed) != place("random", graph, platform, 7);
  EXPECT_EQ(different, 10);
}

TEST(LinearOrder, InputsAndLabelsGoWithTheirFirstReader) {
  const Graph graph = tied_graph(2);  // tokens, label, wte, l0, l1, head, loss
  const std::vector<Unit> units = linear_order(graph);
  ASSERT_EQ(units.size(), 5u);
  const auto name = [&](OpId op) { return graph.op(op).name; };
  EXPECT_EQ(name(units.front().ops[0]), "tokens");
  EXPECT_EQ(name(units.front().ops[1]), "wte");
  EXPECT_EQ(name(units.back().ops[0]), "label");
  EXPECT_EQ(name(units.back().ops[1]), "loss");
  const auto stages = place("equal-number", graph, equal_devices(5));
  EXPECT_EQ(stages.back().ops.size(), 2u);
}

TEST(Policy, UnknownNameShowsTheNearest) {
  try {
    find_policy("equal-numbers");
    FAIL();
  } catch (const InputError& fault) {
    EXPECT_THAT(fault.what(), testing::HasSubstr("did you mean \"equal-number\""));
  }
}

/// Every row of the table, on chains and branching networks, with fewer and with more devices than ops.
TEST(Policy, EveryPolicyPlacesValidly) {
  for (const PolicyRow& row : policy_table())
    for (std::uint64_t seed = 0; seed < 12; ++seed)
      for (const std::size_t devices : {1, 2, 5, 40}) {
        if (row.name == "exact" && devices > 2) continue;  // refuses what is too large (exact_test.cpp)
        const Graph graph = seed % 2 == 0 ? branching_graph(8, seed) : tied_graph(seed);
        const Platform platform = equal_devices(devices);
        Schedule schedule = schedule_of(graph, place(row.name.data(), graph, platform, seed));
        EXPECT_NO_THROW(validate(schedule, graph, platform, std::string(row.name))) << devices << " " << seed;
      }
}

}  // namespace
}  // namespace fusion
