// Lower bounds: what they come to by hand, and that no placement beats them.
#include "core/plan/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "core/base/error.h"
#include "core/plan/exact.h"
#include "core/plan/op_fence_judge.h"
#include "core/plan/plan.h"
#include "core/platform/platform.h"
#include "core/program/order.h"
#include "tests/support/random_problem.h"

namespace fusion {
namespace {

/// 4 ops of 1 + 2 s on one device of 1 FLOP/s: 4 x 3 s x 5 micro-batches, and that is what a device takes.
TEST(LowerBound, IsTheWorkOnOneDevice) {
  const Graph graph = chain_graph(4);
  const Costs costs = flop_costs({0, 1, 1, 1, 1}, {0, 2, 2, 2, 2});
  const Platform platform = star_platform({1}, BytesPerSecond(1));
  const Schedule request = schedule_of(graph, {}, 5);
  const Compression none = parse_compression("none");
  EXPECT_NEAR(lower_bound({graph, costs, platform, request, none}).value, 60, 1e-9);
}

// The same on two devices whose link costs nothing: 12 s to fill, then 6 s for each of the other 4.
TEST(LowerBound, IsFillAndBottleneckOnTwoDevices) {
  const Graph graph = chain_graph(4);
  const Costs costs = flop_costs({0, 1, 1, 1, 1}, {0, 2, 2, 2, 2});
  const Platform platform = star_platform({1, 1}, BytesPerSecond(1e15));
  const Schedule request = schedule_of(graph, {}, 5);
  const Compression none = parse_compression("none");
  EXPECT_NEAR(lower_bound({graph, costs, platform, request, none}).value, 12 + 4 * 6, 1e-9);
}

// Two hosts of two devices, 1 FLOP/s each, 1 s of latency per direction between hosts and none inside; 12 s of work, 5
// micro-batches. One device: 60 s. Two on a host: 12 + 4 x 6 = 36. Four cross once, there and back: 14 s to fill; they
// are busy for 3 s each, but 1F1B has 4 in flight, so the fifth waits for the first to return: 14 + 14 = 28.
TEST(LowerBound, ManyDevicesHaveToCrossTheSlowLink) {
  const Graph graph = chain_graph(4);
  const Costs costs = flop_costs({0, 1, 1, 1, 1}, {0, 2, 2, 2, 2});
  Platform platform = star_platform({1, 1, 1, 1}, BytesPerSecond(1e15));
  for (Link& link : platform.links) link.latency = Seconds(link.name.ends_with("out") ? 1 : 0);
  for (Device& device : platform.devices) device.gpu = GpuId(0);
  platform.hosts.resize(2);
  platform.sites[0].hosts.resize(2);
  for (std::size_t d = 0; d < 4; ++d) platform.devices[d].host = HostId(d / 2);
  for (std::size_t d = 0; d < 4; ++d) {
    for (const char* way : {".up", ".down"})
      platform.links.push_back({platform.devices[d].name + way, BytesPerSecond(1e15), Seconds(0), true});
    platform.buses[d] = LinkPair{LinkId(platform.links.size() - 2), LinkId(platform.links.size() - 1)};
  }
  for (std::size_t h = 0; h < 2; ++h) platform.hosts[h].devices = {DeviceId(2 * h), DeviceId(2 * h + 1)};
  const Schedule request = schedule_of(graph, {}, 5);
  const Compression none = parse_compression("none");
  EXPECT_NEAR(lower_bound({graph, costs, platform, request, none}).value, 14 + 14, 1e-6);
}

/// Whatever the network, order, compression and memory.
TEST(LowerBound, IsNeverAboveTheOptimum) {
  std::mt19937_64 random(31);
  double sum = 0, worst = 0;
  int feasible = 0;
  for (int i = 0; i < 300; ++i) {
    RandomProblem problem = random_problem(random, {.chain = i % 2 == 0});
    problem.request.order = i % 3 == 0 ? "gpipe" : "1f1b";
    problem.request.training.recompute = i % 4 == 0;
    const auto rows = compression_table();
    problem.compression = {&rows[static_cast<std::size_t>(i) % rows.size()], 3};
    const PolicyInput input = problem.input();
    const Seconds bound = lower_bound(input);
    const BranchAndBound optimum = branch_and_bound(input, {}, 100'000'000);
    if (!optimum.best) continue;
    ++feasible;
    const double gap = optimality_gap(optimum.best->iteration, bound);
    EXPECT_GE(gap, -1e-9) << i;
    sum += gap;
    worst = std::max(worst, gap);
  }
  std::cout << "optimum above the bound: mean " << 100 * sum / feasible << " %, most " << 100 * worst << " % of "
            << feasible << " cases\n";
  EXPECT_GT(feasible, 150);
}

TEST(LowerBound, IsNeverAboveAPlanForAShippedPlatformInAnyOrder) {
  RunConfig config;
  config.model = "mlp";
  for (const PlatformRow& row : list_platforms()) {
    config.platform = row.name;
    const Problem problem = load_problem(config);
    for (const OrderRow& order : order_table())
      for (const char* compress : {"none", "adatopk:100", "int8"}) {
        config.order = order.name;
        config.compress = compress;
        try {
          const Schedule plan = make_schedule(config, problem);
          const Seconds bound = lower_bound(problem, plan);
          EXPECT_GT(bound, Seconds(0));
          EXPECT_GE(optimality_gap(plan.predicted_iteration, bound), -1e-9) << row.name << order.name << compress;
        } catch (const Infeasible&) {
        }
      }
  }
}

}  // namespace
}  // namespace fusion
