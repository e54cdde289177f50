// What a stage costs, by hand: memory, codecs, update, names.
#include "core/plan/stage_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/program/order.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

using testing::HasSubstr;

// Eight equal layers on devices 1, 2, 2 and 3: stages of 1, 2, 2 and 3 layers. A layer of 4 x 4 with bias has 20
// parameters, 16 B each with Adam: 320 B; it keeps its input of 2 x 4 fp32, 32 B, per micro-batch in flight.
TEST(Golden, G10_MemoryIsTheHeaviestStages) {
  const Graph graph = chain_graph(8);
  const Platform platform = star_platform({1, 1, 1, 1}, BytesPerSecond(1e9));
  const Schedule schedule =
      schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 4), stage_of(2, 4, 6), stage_of(3, 6, 9)}, 4);
  const auto costs = stage_costs(schedule, graph, estimate(graph), platform);
  for (std::size_t s = 0; s < 4; ++s) {
    const int layers = std::array{1, 2, 2, 3}[s];
    EXPECT_EQ(costs[s].parameters, Bytes(320 * layers)) << s;
    EXPECT_EQ(costs[s].kept, Bytes(32 * layers)) << s;
  }
  // A message is 32 B; two for each direction of each cut. 1f1b holds 4, 3, 2, 1 micro-batches.
  const auto needed = [&](std::size_t s) {
    return memory_needed(costs[s], find_order("1f1b").in_flight({4, static_cast<int>(s), 4}));
  };
  EXPECT_EQ(needed(0), Bytes(320 + 4 * 32 + 4 * 32));
  EXPECT_EQ(needed(1), Bytes(640 + 8 * 32 + 3 * 64));
  EXPECT_EQ(needed(3), Bytes(960 + 4 * 32 + 1 * 96));
}

/// 20 B/s of memory bandwidth where a codec's passes matter.
Platform slow_memory(std::size_t devices) {
  Platform platform = star_platform(std::vector<double>(devices, 1), BytesPerSecond(1));
  for (GpuType& gpu : platform.gpus) {
    gpu.memory_bandwidth = BytesPerSecond(40);
    gpu.sustained_bandwidth = 0.5;
  }
  return platform;
}

// Messages of 32 B are 1.6 s per pass at 20 B/s.
TEST(StageCosts, CodecsTakeTimeAtBothEnds) {
  const Graph graph = chain_graph(3);
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3), stage_of(2, 3, 4)});
  schedule.edges[0].activation = {CodecKind::topk, 8};
  schedule.edges[1].activation = {CodecKind::int8};
  schedule.edges[0].gradient = {CodecKind::fp16};
  const auto costs = stage_costs(schedule, graph, flop_costs({0, 0, 0, 0}, {0, 0, 0, 0}), slow_memory(3));
  const auto topk = coding_passes(CodecKind::topk), int8 = coding_passes(CodecKind::int8),
             fp16 = coding_passes(CodecKind::fp16);
  EXPECT_DOUBLE_EQ(costs[0].forward_codec.value, topk.encode * 1.6);
  EXPECT_DOUBLE_EQ(costs[1].forward_codec.value, (topk.decode + int8.encode) * 1.6);
  EXPECT_DOUBLE_EQ(costs[2].forward_codec.value, int8.decode * 1.6);
  EXPECT_DOUBLE_EQ(costs[0].backward_codec.value, fp16.decode * 1.6);
  EXPECT_DOUBLE_EQ(costs[1].backward_codec.value, fp16.encode * 1.6);
  EXPECT_DOUBLE_EQ(costs[2].backward_codec.value, 0);
  EXPECT_EQ(costs[0].buffers, Bytes(4 * 32));  // of the dense size, whatever the codec
}

// Two layers have 40 parameters, 640 B with Adam, read and written once at 20 B/s: 64 s.
TEST(StageCosts, UpdateIsBoundByMemory) {
  const Graph graph = chain_graph(2);
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 3)});
  const Costs none = flop_costs({0, 0, 0}, {0, 0, 0});
  EXPECT_DOUBLE_EQ(stage_costs(schedule, graph, none, slow_memory(1))[0].update.value, 64);
  schedule.training.optimizer = Optimizer::sgd;
  EXPECT_DOUBLE_EQ(stage_costs(schedule, graph, none, slow_memory(1))[0].update.value, 32);
  Platform measured = slow_memory(1);
  measured.gpus[0].update_bandwidth = BytesPerSecond(40);
  EXPECT_DOUBLE_EQ(stage_costs(schedule, graph, none, measured)[0].update.value, 16);
}

TEST(StageCosts, TimesAreSumsOnTheStagesOwnDevice) {
  const Graph graph = chain_graph(3);
  const Platform platform = star_platform({1, 2}, BytesPerSecond(1e9));
  const Schedule schedule = schedule_of(graph, {stage_of(1, 0, 3), stage_of(0, 3, 4)});
  const auto costs = stage_costs(schedule, graph, flop_costs({0, 2, 4, 8}, {0, 4, 8, 16}), platform);
  EXPECT_DOUBLE_EQ(costs[0].forward.value, 3);
  EXPECT_DOUBLE_EQ(costs[0].input_gradient.value, 3);
  EXPECT_DOUBLE_EQ(costs[0].weight_gradient.value, 3);
  EXPECT_DOUBLE_EQ(costs[1].forward.value, 8);
  EXPECT_DOUBLE_EQ(costs[1].pass().value, 24);
  EXPECT_DOUBLE_EQ(costs[1].second_forward.value, 0);
}

// The table of 10 x 4 is 40 parameters, 640 B. Split it stands on both stages, together once.
TEST(StageCosts, TiedParametersTakeMemoryWhereverTheyAre) {
  const Graph graph = tied_graph(2);
  const Platform platform = star_platform({1, 1}, BytesPerSecond(1e9));
  const std::size_t n = graph.ops.size();
  const Costs costs = estimate(graph);
  const auto whole = stage_costs(schedule_of(graph, {stage_of(0, 0, n)}), graph, costs, platform);
  const auto split = stage_costs(schedule_of(graph, {stage_of(0, 0, 4), stage_of(1, 4, n)}), graph, costs, platform);
  EXPECT_EQ(whole[0].parameters, Bytes(640 + 2 * 320));
  EXPECT_EQ(split[0].parameters + split[1].parameters, whole[0].parameters + Bytes(640));
}

// With recompute a stage holds what it received (or read) per micro-batch, and all it keeps only while one backward
// runs.
TEST(StageCosts, RecomputeKeepsInputsOnly) {
  const Graph graph = chain_graph(8);
  const Platform platform = star_platform({1, 1}, BytesPerSecond(1e9));
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 4), stage_of(1, 4, 9)}, 4);
  const Costs costs = estimate(graph);
  const auto plain = stage_costs(schedule, graph, costs, platform);
  schedule.training.recompute = true;
  const auto recomputed = stage_costs(schedule, graph, costs, platform);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(recomputed[s].kept, Bytes(32)) << s;
    EXPECT_EQ(recomputed[s].recompute_extra, plain[s].kept) << s;
    EXPECT_EQ(recomputed[s].second_forward, plain[s].forward) << s;
    EXPECT_EQ(recomputed[s].pass(), plain[s].pass() + plain[s].forward) << s;
    EXPECT_EQ(memory_needed(recomputed[s], 3), plain[s].parameters + plain[s].buffers + Bytes(3 * 32) + plain[s].kept);
    EXPECT_EQ(plain[s].recompute_extra, Bytes(0));
  }
}

class RequireMemoryTest : public testing::Test {
 protected:
  std::string fault() {
    const auto costs = stage_costs(schedule, graph, estimate(graph), platform);
    try {
      require_memory(schedule, graph, costs, platform);
    } catch (const Infeasible& error) {
      return error.what();
    }
    return "";
  }

  Graph graph = chain_graph(4);
  Platform platform = star_platform({1, 1}, BytesPerSecond(1e9));
  Schedule schedule = schedule_of(graph, {stage_of(1, 0, 3), stage_of(0, 3, 5)}, 4);
};

// Stage 0: 2 layers of 320 B, 4 messages of 32 B, 2 micro-batches in flight of 64 B: 896 B. Stage 1: one in flight,
// 832.
TEST_F(RequireMemoryTest, FitsToTheByte) {
  platform.gpus[1].memory = Bytes(896);
  platform.gpus[0].memory = Bytes(832);
  EXPECT_EQ(fault(), "");
  platform.gpus[0].memory = Bytes(831);
  EXPECT_THAT(fault(), HasSubstr("stage 1 (blocks 2-3) needs 832 B, but its device d0 (gpud0) has 831 B"));
}

TEST_F(RequireMemoryTest, NamesTheStageThatExceedsMostAndWhatWouldHelp) {
  platform.gpus[1].memory = Bytes(895);
  platform.gpus[0].memory = Bytes(32);
  EXPECT_THAT(fault(), HasSubstr("stage 1 (blocks 2-3) needs 832 B"));
  EXPECT_THAT(fault(), HasSubstr("2 of 2 stages don't fit"));
  EXPECT_THAT(fault(), HasSubstr("--recompute"));
  EXPECT_THAT(fault(), testing::Not(HasSubstr("--order 1f1b")));
  EXPECT_THAT(fault(), testing::Not(HasSubstr("smaller --micro-batch")));
}

// gpipe holds all 4 micro-batches: 640 + 128 + 4 x 64 = 1024 B.
TEST_F(RequireMemoryTest, DependsOnTheOrder) {
  platform.gpus[1].memory = Bytes(1023);
  EXPECT_EQ(fault(), "");
  schedule.order = "gpipe";
  schedule.model_options.micro_batch = 2;
  schedule.training.recompute = false;
  EXPECT_THAT(fault(), HasSubstr("needs 1 KiB"));
  EXPECT_THAT(fault(), HasSubstr("--order 1f1b"));
  EXPECT_THAT(fault(), HasSubstr("smaller --micro-batch"));
}

// --- names -----------------------------------------------------------------------------------------------------------

std::string name_of_blocks(const std::vector<std::string>& blocks) {
  GraphBuilder net("named", 2);
  TensorId x = net.input("x", {2, 4});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    net.block(blocks[i]);
    x = net.linear("l" + std::to_string(i), x, 4);
  }
  const Graph graph = std::move(net).finish();
  return stage_name(graph, stage_of(0, 0, graph.ops.size()));
}

TEST(StageName, FollowsTheBlockLabels) {
  EXPECT_EQ(name_of_blocks({"3"}), "block 3");
  EXPECT_EQ(name_of_blocks({"3", "3", "4", "7"}), "blocks 3-7");
  EXPECT_EQ(name_of_blocks({"embedding", "0", "1", "2"}), "embedding-blocks 0-2");
  EXPECT_EQ(name_of_blocks({"embedding", "embedding", "0"}), "embedding-block 0");
  EXPECT_EQ(name_of_blocks({"9", "10", "11", "head"}), "blocks 9-11-head");
  EXPECT_EQ(name_of_blocks({"embedding", "0", "1", "head"}), "embedding-blocks 0-1-head");
  EXPECT_EQ(name_of_blocks({"head"}), "head");
  EXPECT_EQ(name_of_blocks({"layer1.0", "layer1.1", "layer2.0"}), "layer1.0-layer2.0");
}

TEST(StageName, WithoutLabelsTheOpsNames) {
  EXPECT_EQ(name_of_blocks({"", ""}), "x..l1");
  const Graph graph = chain_graph(2);
  EXPECT_EQ(stage_name(graph, stage_of(0, 0, 1)), "x");
}

}  // namespace
}  // namespace fusion
