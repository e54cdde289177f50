// Branch and bound: the optimum by another route, limits, and the gap of op-fence to it.
#include "core/plan/exact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "core/base/error.h"
#include "core/graph/models.h"
#include "core/plan/linear_order.h"
#include "core/plan/op_fence.h"
#include "tests/support/exhaustive.h"
#include "tests/support/plan_cases.h"
#include "tests/support/random_problem.h"

namespace fusion {
namespace {

constexpr std::size_t any_number = 100'000'000;

double best_s(const BranchAndBound& found) { return found.best ? found.best->iteration.value : no_placement; }

// The search of tests/support prunes by other bounds and enumerates by another scheme.
TEST(Exact, EqualsExhaustiveSearch) {
  std::mt19937_64 random(21);
  int feasible = 0, infeasible = 0;
  for (int i = 0; i < 200; ++i) {
    RandomProblem problem = random_problem(random, {.chain = i % 2 == 0});
    problem.request.order = i % 3 == 0 ? "gpipe" : "1f1b";
    const double expected = exhaustive_iteration(problem.input());
    const BranchAndBound found = branch_and_bound(problem.input(), {}, any_number);
    ASSERT_TRUE(found.complete) << i;
    expected == no_placement ? ++infeasible : ++feasible;
    if (expected == no_placement)
      EXPECT_FALSE(found.best) << i;
    else
      EXPECT_NEAR(best_s(found), expected, 1e-9 * expected) << i;
  }
  EXPECT_GT(feasible, 100);
  EXPECT_GT(infeasible, 2);
}

/// Least iteration over all cuts of a chain and all choices of devices, each judged: no bound is trusted.
double least_of_chain(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  double least = no_placement;
  std::vector<std::size_t> bounds = {0};
  std::vector<DeviceId> devices;
  const std::function<void()> extend = [&] {
    if (bounds.back() == units.size()) {
      const Judged judged = judge(input, cut_line(units, bounds, devices));
      if (judged.fits()) least = std::min(least, judged.iteration.value);
      return;
    }
    for (std::size_t d = 0; d < input.platform.devices.size(); ++d) {
      if (std::ranges::find(devices, DeviceId(d)) != devices.end()) continue;
      devices.emplace_back(d);
      for (std::size_t next = bounds.back() + 1; next <= units.size(); ++next) {
        bounds.push_back(next);
        extend();
        bounds.pop_back();
      }
      devices.pop_back();
    }
  };
  extend();
  return least;
}

TEST(Exact, EqualsAllPlacementsOfAChainUnderEveryCompressionAndRecompute) {
  std::mt19937_64 random(22);
  int looked_at = 0;
  for (const CompressionRow& row : compression_table())
    for (int i = 0; i < 10; ++i) {
      RandomProblem problem = random_problem(random, {.chain = true, .max_devices = 4, .max_layers = 6});
      problem.compression = {&row, row.takes_ratio ? 4.0 : 1.0};
      problem.request.training.recompute = i % 2 == 0;
      const double expected = least_of_chain(problem.input());
      const BranchAndBound found = branch_and_bound(problem.input(), {}, any_number);
      if (expected == no_placement)
        EXPECT_FALSE(found.best) << row.name << i;
      else
        EXPECT_NEAR(best_s(found), expected, 1e-9 * expected) << row.name << i;
      looked_at += expected != no_placement;
    }
  EXPECT_GT(looked_at, 60);
}

TEST(Exact, IsNoWorseThanAnyPolicyAndStopsAtItsLimit) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 40; ++i) {
    const RandomProblem problem = random_problem(random, {.chain = false, .ample_memory = true});
    const PolicyInput input = problem.input();
    const Judged best = judge(input, exact(input));
    for (const PolicyRow& row : policy_table())
      EXPECT_LE(best.iteration.value, judge(input, row.place(input)).iteration.value * (1 + 1e-9)) << row.name;
    const BranchAndBound cut_off = branch_and_bound(input, {}, 3);
    EXPECT_LE(cut_off.num_nodes, 3u);
  }
}

TEST(Exact, NumberOfPlacementsOfALine) {
  EXPECT_EQ(num_line_placements(1, 5), 5);
  EXPECT_EQ(num_line_placements(3, 1), 1);
  // Three units on two devices: whole on either, or cut in 2 places with 2 assignments.
  EXPECT_EQ(num_line_placements(3, 2), 2 + 2 * 2);
  // Four on three: 3 + C(3, 1) 6 + C(3, 2) 6.
  EXPECT_EQ(num_line_placements(4, 3), 3 + 18 + 18);
}

TEST(Exact, RefusesWhatIsTooLargeAndSaysTheLimit) {
  const Compression none = parse_compression("none");
  const auto refusal = [&](const Graph& graph, std::size_t num_devices) {
    const Costs costs = estimate(graph);
    const Platform platform = star_platform(std::vector<double>(num_devices, 1e9), BytesPerSecond(1e9));
    const Schedule request = schedule_of(graph, {}, 4);
    try {
      exact({graph, costs, platform, request, none});
    } catch (const Infeasible& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(chain_graph(65), 2).find("64"), std::string::npos);
  EXPECT_NE(refusal(chain_graph(40), 12).find("10 million"), std::string::npos);
  EXPECT_EQ(refusal(chain_graph(40), 3), "");
}

TEST(Exact, SaysThatNothingFits) {
  const Graph graph = chain_graph(4, 64, 64);
  const Costs costs = estimate(graph);
  Platform platform = star_platform({1e12, 1e12}, BytesPerSecond(1e9));
  for (GpuType& gpu : platform.gpus) gpu.memory = Bytes(1000);
  const Schedule request = schedule_of(graph, {}, 4);
  const Compression none = parse_compression("none");
  EXPECT_THROW(exact({graph, costs, platform, request, none}), Infeasible);
}

/// At most 1 % worse, in each of 500 cases; a tenth of them unless the nightly tests run.
TEST(OpFence, GapToExactIsAtMostOnePercentInEveryCase) {
  const int cases = std::getenv("FUSION_NIGHTLY") != nullptr ? 500 : 100;
  std::mt19937_64 random(24);
  double worst = 0, sum = 0;
  int feasible = 0;
  for (int i = 0; i < cases; ++i) {
    RandomProblem problem = random_problem(random, {.chain = i % 2 == 0});
    problem.request.order = i % 5 == 0 ? "gpipe" : "1f1b";
    const PolicyInput input = problem.input();
    const BranchAndBound optimum = branch_and_bound(input, {}, any_number);
    if (!optimum.best) continue;
    ++feasible;
    const double gap = judge(input, op_fence(input)).iteration / optimum.best->iteration - 1;
    EXPECT_LE(gap, 0.01) << i;
    sum += gap;
    worst = std::max(worst, gap);
  }
  std::cout << "gap of op-fence to exact: mean " << 100 * sum / feasible << " %, worst " << 100 * worst << " % of "
            << feasible << " cases\n";
  EXPECT_GT(feasible, cases / 2);
}

}  // namespace
}  // namespace fusion
