// Data-parallel copies of a pipeline: where they stand, what they exchange, and how long it takes.
#include "core/plan/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "bench/synthetic.h"
#include "core/base/error.h"
#include "core/engine/native.h"
#include "core/plan/exchange.h"
#include "core/plan/plan.h"
#include "core/program/lower.h"
#include "sim/simulate.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<DeviceId> ids(std::initializer_list<std::size_t> numbers) {
  std::vector<DeviceId> list;
  for (const std::size_t n : numbers) list.emplace_back(n);
  return list;
}

TEST(Divisions, SideBySideAndInTurn) {
  EXPECT_THAT(divisions(make_platform({.num_devices = 6, .num_sites = 2}), 2),
              ElementsAre(Division{ids({0, 1, 2}), ids({3, 4, 5})}, Division{ids({0, 2, 4}), ids({1, 3, 5})}));
  // As evenly as can be.
  EXPECT_EQ(divisions(make_platform({.num_devices = 5}), 2).front(), (Division{ids({0, 1, 2}), ids({3, 4})}));
}

TEST(Divisions, OneWhereBothAreTheSame) {
  EXPECT_EQ(divisions(make_platform({.num_devices = 3}), 3).size(), 1u);
  EXPECT_EQ(divisions(make_platform({.num_devices = 3}), 1), (std::vector<Division>{{ids({0, 1, 2})}}));
}

TEST(Divisions, MoreReplicasThanDevicesAreRefused) {
  EXPECT_THROW(divisions(make_platform({.num_devices = 3}), 4), InputError);
}

/// `replicas` copies of the same stages on devices one after the other.
Schedule copies(const Graph& graph, const std::vector<Stage>& stages, int replicas, int micro_batches) {
  std::vector<Stage> all;
  for (int r = 0; r < replicas; ++r)
    for (Stage stage : stages) {
      stage.replica = r;
      stage.device = DeviceId(all.size());
      all.push_back(stage);
    }
  Schedule schedule = schedule_of(graph, all, micro_batches);
  schedule.replicas = replicas;
  return schedule;
}

Platform star(std::size_t n, double bandwidth = 1e18) {
  return star_platform(std::vector<double>(n, 1), BytesPerSecond(bandwidth));
}

std::string fault(const Schedule& schedule, const Graph& graph) {
  try {
    validate(schedule, graph, star(schedule.stages.size()), "s.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Replicas, AScheduleIsHeldToEveryCopy) {
  const Graph graph = chain_graph(2);
  const Schedule good = copies(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3)}, 2, 4);
  EXPECT_EQ(fault(good, graph), "");
  ASSERT_EQ(good.edges.size(), 2u);  // one in each copy, none between them
  EXPECT_EQ(good.edges[1].from, StageId(2UL));

  Schedule bad = good;
  bad.micro_batches = 5;
  EXPECT_THAT(fault(bad, graph), AllOf(HasSubstr("micro_batches"), HasSubstr("6 can")));
  bad = good;
  bad.replicas = 3;
  bad.micro_batches = 6;
  EXPECT_THAT(fault(bad, graph), HasSubstr("replica 2 are missing"));
  bad = good;
  bad.replicas = 1;
  EXPECT_THAT(fault(bad, graph), HasSubstr("stages[2].replica"));
  bad = good;
  std::swap(bad.stages[1].replica, bad.stages[2].replica);
  EXPECT_THAT(fault(bad, graph), HasSubstr("stages[2].replica"));
  bad = good;
  bad.stages[2].device = DeviceId(1UL);
  EXPECT_THAT(fault(bad, graph), AllOf(HasSubstr("stages[2].device"), HasSubstr("already runs stage 1")));
  bad = good;
  bad.stages[3].ops.clear();
  EXPECT_THAT(fault(bad, graph), HasSubstr("stages[3].ops"));
  bad = good;
  bad.edges[1].to = StageId(1UL);  // across copies
  EXPECT_THAT(fault(bad, graph), HasSubstr("edges"));
}

TEST(Replicas, EveryParameterIsSummedByAllThatHoldIt) {
  // Tied over the first and last of three stages, twice: one bucket of four; the layers between: buckets of two.
  const Graph graph = tied_graph(3);
  const std::size_t n = graph.ops.size();
  const Schedule schedule = copies(graph, {stage_of(0, 0, 3), stage_of(1, 3, 5), stage_of(2, 5, n)}, 2, 2);
  std::set<ParameterId> seen;
  std::multiset<std::size_t> members;
  for (const Exchange& each : exchanges(schedule, graph)) {
    for (const ParameterId p : each.bucket.parameters) EXPECT_TRUE(seen.insert(p).second);
    members.insert(each.first.size());
  }
  EXPECT_EQ(seen.size(), graph.parameters.size());
  EXPECT_EQ(members.count(4), 1u);
  EXPECT_EQ(members.size(), members.count(4) + members.count(2));
}

TEST(Replicas, EachTakesItsShareOfTheMicroBatches) {
  const Graph graph = chain_graph(2);
  const Schedule schedule = copies(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3)}, 2, 6);
  const Platform platform = star(4);
  const Program program = lower(schedule, graph, estimate(graph), platform);
  EXPECT_EQ(program.info.micro_batches, 3);
  EXPECT_EQ(program.info.replicas, 2);
  EXPECT_EQ(program.info.samples, 6 * graph.micro_batch);
  for (const DeviceProgram& device : program.devices) {
    std::size_t forwards = 0;
    for (const Step& step : device.steps)
      forwards += program.task(step.task).phase == Phase::forward && program.task(step.task).kind == TaskKind::compute;
    EXPECT_EQ(forwards, 3u);
  }
}

/// In both engines.
void expect_iteration(const Program& program, const Platform& platform, double expected_s) {
  validate(program, platform, Sends::buffered, "test");
  EXPECT_NEAR(native_iteration(program, platform).value, expected_s, 1e-6 * expected_s);
  EXPECT_NEAR(sim::simulate_isolated(program, platform, {}).iteration.value, expected_s, 1e-6 * expected_s);
}

// Four copies of a layer of 20 parameters, tf = 1, tb = 2, two micro-batches each: 2 (1 + 2) + 2 (3/4) 80 B / 10 B/s.
TEST(Replicas, DataParallelTakesItsClosedForm) {
  const Graph graph = chain_graph(1);
  const Costs costs = flop_costs({0, 1}, {0, 2});
  Schedule schedule = copies(graph, {stage_of(0, 0, 2)}, 4, 8);
  schedule.collective = "ring";
  const Platform platform = star(4, 10);
  expect_iteration(lower(schedule, graph, costs, platform), platform, 6 + 12);
  EXPECT_NEAR(predict(schedule, graph, stage_costs(schedule, graph, costs, platform), platform).iteration.value, 18,
              1e-6);
}

// Two stages in two copies. A layer's 80 B take 0.5 s at 160 B/s, both ways at once. The second stage's go while the
// first still runs its last backward of 2 s, so only the first's are seen; but the last gradient's 32 B share the
// second stage's link with them, and take 0.4 s for 0.2 s.
TEST(Replicas, SumsOverlapWithTheBackwardOfEarlierStages) {
  const Graph graph = chain_graph(2);
  const Costs costs = flop_costs({0, 1, 1}, {0, 2, 2});
  const Platform platform = star(4, 160);
  const std::vector<Stage> stages = {stage_of(0, 0, 2), stage_of(1, 2, 3)};
  const Schedule one = copies(graph, stages, 1, 3), two = copies(graph, stages, 2, 6);
  const double alone = native_iteration(lower(one, graph, costs, platform), platform).value;
  expect_iteration(lower(two, graph, costs, platform), platform, alone + 0.2 + 0.5);
  const auto predicted = [&](const Schedule& schedule) {
    return predict(schedule, graph, stage_costs(schedule, graph, costs, platform), platform);
  };
  EXPECT_NEAR(predicted(two).exchange.value, 0.5, 1e-9);
  EXPECT_NEAR((predicted(two).iteration - predicted(one).iteration).value, 0.5, 1e-6);
}

TEST(Replicas, EveryCollectiveWithEveryOrderFinishes) {
  std::mt19937_64 random(9);
  const Graph graph = tied_graph(14);
  const std::size_t n = graph.ops.size();
  for (const OrderRow& order : order_table())
    for (const CollectiveRow& row : collective_table())
      for (const int replicas : {2, 3}) {
        const int chunks = find_order(order.name).chunks;
        std::vector<Stage> stages;
        for (int s = 0; s < 2 * chunks; ++s)
          stages.push_back(stage_of(0, static_cast<std::size_t>(s) * n / static_cast<std::size_t>(2 * chunks),
                                    static_cast<std::size_t>(s + 1) * n / static_cast<std::size_t>(2 * chunks)));
        Schedule schedule = copies(graph, stages, replicas, 2 * replicas);
        for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
          const int in_pipeline = static_cast<int>(s % stages.size());
          schedule.stages[s].device = DeviceId(static_cast<std::size_t>(
              2 * schedule.stages[s].replica + find_order(order.name).device_of(in_pipeline, 2)));
        }
        schedule.order = order.name;
        schedule.collective = row.name;
        const Platform platform = star(static_cast<std::size_t>(2 * replicas), 1e6 + static_cast<double>(random() % 9));
        const std::string what = schedule.order + ", " + schedule.collective;
        validate(schedule, graph, platform, what);
        const Program program = lower(schedule, graph, estimate(graph), platform);
        EXPECT_NO_THROW(validate(program, platform, Sends::buffered, what)) << what;
        EXPECT_GT(native_iteration(program, platform), Seconds(0)) << what;
      }
}

TEST(Replicas, EveryPolicyPlacesThem) {
  RunConfig config;
  config.model = "gpt2";
  config.platform = "testbed-1";
  config.replicas = 2;
  for (const PolicyRow& policy : policy_table()) {
    if (policy.name == "exact") continue;  // refuses what is too large (exact_test.cpp)
    config.policy = policy.name;
    const Problem problem = load_problem(config);
    const Schedule schedule = make_schedule(config, problem);
    ASSERT_EQ(pipelines(schedule.stages).size(), 2u) << policy.name;
    std::set<DeviceId> devices;
    for (const Stage& stage : schedule.stages) EXPECT_TRUE(devices.insert(stage.device).second) << policy.name;
    const Program program = lower(schedule, problem.graph, problem.costs, problem.platform);
    EXPECT_GT(native_iteration(program, problem.platform), Seconds(0)) << policy.name;
    EXPECT_EQ(program.info.samples, 8);
  }
}

// Two sites of two behind a slow uplink: a pipeline of much traffic and few parameters stays inside a site, one of
// little traffic and many parameters reaches across, so that the sums stay inside.
TEST(Replicas, TheSlowLinkCarriesTheLesser) {
  const auto crosses = [](std::int64_t rows, std::int64_t features) {
    Problem problem{chain_graph(2, rows, features), {}, make_platform({.num_devices = 4, .num_sites = 2})};
    problem.costs = estimate(problem.graph);
    RunConfig config;
    config.policy = "equal-number";
    config.replicas = 2;
    const Schedule schedule = make_schedule(config, problem);
    return schedule.stages[0].device.index() / 2 != schedule.stages[1].device.index() / 2;
  };
  EXPECT_FALSE(crosses(100'000, 4));
  EXPECT_TRUE(crosses(1, 4000));
}

}  // namespace
}  // namespace fusion
