// Several stages per device: where the network is cut, what a schedule may say, what it needs and how long it takes.
#include "core/plan/virtual_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/engine/native.h"
#include "core/plan/plan.h"
#include "core/plan/stage_costs.h"
#include "core/program/lower.h"
#include "core/program/order_file.h"
#include "tests/support/plan_cases.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::size_t> sizes(const std::vector<Stage>& stages) {
  std::vector<std::size_t> counts;
  for (const Stage& stage : stages) counts.push_back(stage.ops.size());
  return counts;
}

std::vector<std::size_t> devices(const std::vector<Stage>& stages) {
  std::vector<std::size_t> ids;
  for (const Stage& stage : stages) ids.push_back(stage.device.index());
  return ids;
}

Platform two_devices() { return star_platform({1, 1}, BytesPerSecond(1e9)); }

// An input and 16 equal layers, of which device 1 has 12 and device 0 has 4: with two chunks stages of 2, 6, 2, 6
// layers for interleaved and 2, 6, 6, 2 for zbv. The input goes with the first layer.
TEST(VirtualStages, EachChunkHasItsPartOfTheShare) {
  const Graph graph = chain_graph(16);
  const std::vector<Stage> shares = {stage_of(1, 0, 5), stage_of(0, 5, 17)};
  const auto cut = [&](const char* order) {
    return with_chunks(find_order(order), shares, {}, graph, estimate(graph), two_devices());
  };
  EXPECT_THAT(sizes(cut("interleaved:2")), testing::ElementsAre(3, 6, 2, 6));
  EXPECT_THAT(devices(cut("interleaved:2")), testing::ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(sizes(cut("zbv")), testing::ElementsAre(3, 6, 6, 2));
  EXPECT_THAT(devices(cut("zbv")), testing::ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(cut("1f1b"), shares);
  EXPECT_EQ(cut("zb-h1"), shares);
}

// 12 layers of 1 s forward and 1 s backward, 3 per stage. Layer 3, the one after the first cut, makes 32 bytes, the
// others 64. At 16 B/s a cut of 64 bytes takes 4 s there and 4 s back, one layer further it takes half of that and puts
// the stages 2 s out of balance: 6 s against 8 s. A fast link leaves the balance.
TEST(VirtualStages, ACutMovesToWhereTheNetworkGainsMoreThanTheDevicesLose) {
  GraphBuilder net("narrow", 2);
  TensorId x = net.input("x", {2, 8});
  for (int i = 0; i < 12; ++i) x = net.linear("l" + std::to_string(i), x, i == 3 ? 4 : 8);
  const Graph graph = std::move(net).finish();
  std::vector<double> flops(13, 1);
  flops[0] = 0;  // the input
  const std::vector<Stage> shares = {stage_of(0, 0, 7), stage_of(1, 7, 13)};
  using Sizes = std::vector<std::size_t>;
  for (const auto& [bandwidth, expected] : {std::pair{16.0, Sizes{5, 2, 3, 3}}, {1e9, Sizes{4, 3, 3, 3}}}) {
    const Platform platform = star_platform({1, 1}, BytesPerSecond(bandwidth));
    const auto stages = with_chunks(find_order("interleaved:2"), shares, {}, graph, flop_costs(flops, flops), platform);
    EXPECT_EQ(sizes(stages), expected) << bandwidth;
  }
}

// A head of 12 s after 8 layers of 1 s, and a loss that takes no time but reads 50 times as much as any layer: two of
// the three cuts are wanted inside the head, and none of them may go between it and the loss.
TEST(VirtualStages, CutsMakeRoomForAHeavyEnd) {
  GraphBuilder net("heavy", 2);
  TensorId x = net.input("x", {2, 8});
  for (int i = 0; i < 8; ++i) x = net.linear("l" + std::to_string(i), x, 8);
  net.unary(OpKind::relu, "loss", net.linear("head", x, 400));
  const Graph graph = std::move(net).finish();
  const Costs costs = flop_costs({0, 1, 1, 1, 1, 1, 1, 1, 1, 12, 0}, {0, 1, 1, 1, 1, 1, 1, 1, 1, 12, 0});
  const std::vector<Stage> shares = {stage_of(0, 0, 9), stage_of(1, 9, 11)};
  const Platform platform = star_platform({1, 1}, BytesPerSecond(64));
  const auto stages = with_chunks(find_order("interleaved:2"), shares, {}, graph, costs, platform);
  EXPECT_EQ(stages.back().ops.size(), 2u);  // head and loss together
}

TEST(VirtualStages, RandomGraphsGiveValidSchedules) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = seed % 3 == 0 ? tied_graph(10) : branching_graph(12, seed);
    const std::size_t half = graph.ops.size() / 2;
    const std::vector<Stage> shares = {stage_of(0, 0, half), stage_of(1, half, graph.ops.size())};
    for (const char* order : {"interleaved:2", "interleaved:4", "zbv"}) {
      const auto stages = with_chunks(find_order(order), shares, {}, graph, estimate(graph), two_devices());
      Schedule schedule = schedule_of(graph, stages);
      schedule.order = order;
      EXPECT_NO_THROW(validate(schedule, graph, two_devices(), "x")) << order << seed;
    }
  }
}

TEST(VirtualStages, TooFewOpsAreInfeasible) {
  const Graph graph = chain_graph(2);  // 3 ops
  const std::vector<Stage> shares = {stage_of(0, 0, 2), stage_of(1, 2, 3)};
  EXPECT_THAT(
      [&] { with_chunks(find_order("zbv"), shares, {}, graph, estimate(graph), two_devices()); },
      ThrowsMessage<Infeasible>(HasSubstr("zbv cuts the network into 4 stages for 2 devices, and it has 3 ops")));
}

class ChunkedSchedule : public testing::Test {
 protected:
  std::string fault() const {
    try {
      validate(schedule, graph, platform, "s.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  static Schedule make(const Graph& graph) {
    Schedule made = schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3), stage_of(0, 3, 4), stage_of(1, 4, 5)}, 4);
    made.order = "interleaved:2";
    return made;
  }

  Graph graph = chain_graph(4);
  Platform platform = two_devices();
  Schedule schedule = make(graph);
};

TEST_F(ChunkedSchedule, DevicesReturnWhereTheOrderSaysSo) {
  EXPECT_EQ(fault(), "");
  std::swap(schedule.stages[2].device, schedule.stages[3].device);
  EXPECT_THAT(fault(), AllOf(HasSubstr("s.json: stages[2].device: d1 can't run it"),
                             HasSubstr("interleaved:2 has it on d0, which runs stage 0")));
  schedule.order = "zbv";
  EXPECT_EQ(fault(), "");
  schedule.order = "1f1b";
  EXPECT_THAT(fault(), HasSubstr("already runs stage 1; a device runs one stage"));
  schedule.order = "interleaved:3";
  EXPECT_THAT(fault(), HasSubstr("stages: 4 of them; interleaved:3 runs 3 on every device"));
}

TEST_F(ChunkedSchedule, FirstStagesAreOnDifferentDevices) {
  for (Stage& stage : schedule.stages) stage.device = DeviceId(0UL);
  EXPECT_THAT(fault(), HasSubstr("stages[1].device: d0 already runs stage 0; interleaved:2 has its first 2 stages on"));
}

TEST_F(ChunkedSchedule, NeedsTheMemoryOfAllItsStages) {
  const auto costs = stage_costs(schedule, graph, estimate(graph), platform);
  // Interleaved, 2 devices, m = 4: device 0 has 2 + 2 + 1 = 5 pairs in flight, at most, device 1 has 3.
  const std::vector<Bytes> needed = memory_by_device(schedule, costs);
  // A stage: 320 B of parameters (20 x 16), 32 B kept; the first sends one way and gets one back (4 buffers of 32 B),
  // the last the same, those between 8 buffers.
  EXPECT_EQ(needed, (std::vector{Bytes(2 * 320 + 12 * 32 + 5 * 32), Bytes(2 * 320 + 12 * 32 + 3 * 32)}));
  platform.gpus[0].memory = needed[0] - Bytes(1);
  EXPECT_THAT([&] { require_memory(schedule, graph, costs, platform); },
              ThrowsMessage<Infeasible>(AllOf(HasSubstr("stages 0 (block 0), 2 (block 2) need"),
                                              HasSubstr("their device d0"), HasSubstr("--order 1f1b"))));
}

TEST(VirtualStages, PredictionIsTheReplayWithoutSharing) {
  RunConfig config;
  config.model = "gpt2";
  config.platform = "lan4";
  config.policy = "equal-compute";
  const Problem problem = load_problem(config);
  for (const char* order : {"interleaved:2", "zb-h1", "zbv"}) {
    config.order = order;
    const Schedule schedule = make_schedule(config, problem);
    const Program program = lower(schedule, problem.graph, problem.costs, problem.platform);
    EXPECT_EQ(schedule.predicted_iteration, native_iteration(program, problem.platform, NativeNetwork::no_share));
  }
}

TEST(VirtualStages, AFileIsAnOrderLikeAnother) {
  const TemporaryFolder folder;
  RunConfig config;
  config.model = "gpt2";
  config.platform = "lan4";
  config.policy = "equal-compute";
  config.micro_batches = 6;
  for (const char* order : {"1f1b", "interleaved:2", "zb-h1", "zbv"}) {
    const std::string file = (folder.path() / "order.csv").string();
    write_text(file, write_order(tabulate(find_order(order), 4, 6)));
    config.order = order;
    const Problem problem = load_problem(config);
    const Schedule built_in = make_schedule(config, problem);
    config.order = file;
    const Schedule from_file = make_schedule(config, problem);
    EXPECT_EQ(from_file.stages, built_in.stages) << order;
    Program a = lower(built_in, problem.graph, problem.costs, problem.platform);
    Program b = lower(from_file, problem.graph, problem.costs, problem.platform);
    a.info = b.info;
    EXPECT_EQ(a, b) << order;

    config.micro_batches = 7;
    EXPECT_THAT([&] { make_schedule(config, problem); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(file), HasSubstr("the file is for 6, the run has 7"))));
    config.micro_batches = 6;
    config.devices = 3;
    EXPECT_THAT([&] { make_schedule(config, load_problem(config)); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(file), HasSubstr("for 4 devices, the placement uses 3"))));
    config.devices = 0;
  }
}

}  // namespace
}  // namespace fusion
