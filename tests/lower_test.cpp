// Lowering: what each device gets to do, in which order, and what travels.
#include "core/program/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/engine/native.h"
#include "core/plan/stage_costs.h"
#include "core/plan/traffic.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

Platform star(std::size_t devices) { return star_platform(std::vector<double>(devices, 1e9), BytesPerSecond(1e9)); }

Program lowered(const Schedule& schedule, const Graph& graph) {
  return lower(schedule, graph, estimate(graph), star(schedule.stages.size()));
}

/// "recv F0, forward F0, send F0, …"
std::string list_of(const Program& program, std::size_t device) {
  std::string text;
  for (const Step step : program.devices[device].steps) {
    const Task& task = program.task(step.task);
    const bool compute = task.kind == TaskKind::compute;
    text += (text.empty() ? "" : ", ") + std::string(compute ? name_of(task.phase) : name_of(task.kind));
    if (task.per_micro_batch) text += " " + std::to_string(step.micro_batch);
  }
  return text;
}

TEST(Lower, DeviceListsFollowTheOrder) {
  // x -> l0 -> l1 cut between the layers; 1f1b of 2 stages: stage 0 warms up with 2 forwards, stage 1 with 1.
  const Graph graph = chain_graph(2);
  const Program program = lowered(schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3)}, 2), graph);
  EXPECT_EQ(list_of(program, 0),
            "forward 0, send 0, forward 1, send 1, recv 0, backward 0, recv 1, backward 1, update");
  EXPECT_EQ(list_of(program, 1),
            "recv 0, forward 0, backward 0, send 0, recv 1, forward 1, backward 1, send 1, update");
}

TEST(Lower, TasksTakeTheStagesCosts) {
  const Graph graph = chain_graph(3);
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 4)}, 3);
  schedule.edges[0].gradient = {CodecKind::fp16, 1};
  for (const bool recompute : {false, true}) {
    schedule.training.recompute = recompute;
    const std::vector<StageCosts> costs = stage_costs(schedule, graph, estimate(graph), star(2));
    const Program program = lowered(schedule, graph);
    for (const Task& task : program.tasks) {
      const StageCosts& cost = costs[task.stage.index()];
      if (task.kind == TaskKind::update) {
        EXPECT_EQ(task.duration, cost.update);
      }
      if (task.kind != TaskKind::compute) continue;
      const bool forward = task.phase == Phase::forward;
      EXPECT_EQ(task.duration, forward ? cost.forward : cost.backward_pass() - cost.backward_codec);
      EXPECT_EQ(task.codec_duration, forward ? cost.forward_codec : cost.backward_codec);
    }
    for (std::size_t s = 0; s < 2; ++s) {
      // What the memory check promises is what the walk finds.
      const int in_flight = find_order("1f1b").in_flight({2, static_cast<int>(s), 3});
      EXPECT_EQ(peak_memory(program, program.devices[s]), memory_needed(costs[s], in_flight)) << recompute;
    }
  }
}

TEST(Lower, MessagesCarryTheirCodecsSize) {
  const Graph graph = chain_graph(2, 4, 100);  // the cut tensor: 400 fp32 elements
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3)});
  schedule.edges[0].activation = {CodecKind::topk_raw, 100};  // 4 elements kept, 12 bytes each
  schedule.edges[0].gradient = {CodecKind::fp16, 1};
  const Program program = lowered(schedule, graph);
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::send) continue;
    const bool activation = task.payload.kind == Payload::Kind::activation;
    EXPECT_EQ(task.bytes, Bytes(32 + 56 + 2 * 8 + (activation ? 48 : 800)));  // envelope, header, two dimensions
    EXPECT_EQ(task.dense_bytes, Bytes(1600));
    EXPECT_EQ(task.payload.name, "l0");
    EXPECT_EQ(task.device, DeviceId(activation ? 0UL : 1UL));
    EXPECT_EQ(program.task(task.match).payload, task.payload);
  }
}

TEST(Lower, WhatNeedsNoGradientSendsNone) {
  // The input alone on device 0: its tensor travels, nothing comes back, and the stage has neither backward nor update.
  const Graph graph = chain_graph(1);
  const Program program = lowered(schedule_of(graph, {stage_of(0, 0, 1), stage_of(1, 1, 2)}, 2), graph);
  EXPECT_EQ(list_of(program, 0), "forward 0, send 0, forward 1, send 1");
  EXPECT_EQ(list_of(program, 1), "recv 0, forward 0, backward 0, recv 1, forward 1, backward 1, update");
  EXPECT_EQ(peak_memory(program, program.devices[0]),
            program.devices[0].static_bytes + program.tasks[0].allocates);  // freed by the forward itself
}

TEST(Lower, TiedParametersAreExchangedOnceAndBeforeTheUpdate) {
  const Graph graph = tied_graph(2, 10, 4);  // wte: 10 x 4 on the first and the last stage
  const std::size_t n = graph.ops.size();
  const Schedule schedule = schedule_of(graph, {stage_of(0, 0, 3), stage_of(1, 3, 4), stage_of(2, 4, n)}, 2);
  const Program program = lowered(schedule, graph);
  std::size_t sends = 0, reduces = 0;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    if (task.phase != Phase::exchange) continue;
    EXPECT_FALSE(task.per_micro_batch);
    EXPECT_NE(task.stage, StageId(1UL));
    EXPECT_EQ(task.payload.parameters.size(), 1u);
    EXPECT_EQ(task.payload.end - task.payload.begin, 40);
    sends += task.kind == TaskKind::send;
    EXPECT_EQ(task.bytes, task.kind == TaskKind::reduce ? Bytes(0) : Bytes(160));
    if (task.kind != TaskKind::reduce) continue;
    ++reduces;
    const bool update_waits = std::ranges::any_of(program.tasks, [&](const Task& update) {
      return update.kind == TaskKind::update && std::ranges::count(update.after, TaskId(t)) == 1;
    });
    EXPECT_TRUE(update_waits);
    EXPECT_EQ(task.after.size(), 2u);  // the other's gradient and one's own backward
  }
  EXPECT_EQ(sends, 2u);
  EXPECT_EQ(reduces, 2u);
  EXPECT_THAT(list_of(program, 0), testing::EndsWith("backward 1, send, recv, reduce, update"));
  EXPECT_THAT(list_of(program, 2), testing::EndsWith("backward 1, send 1, recv, send, reduce, update"));
}

TEST(Lower, TiedParametersOfOneStageNeedNoExchange) {
  const Graph graph = tied_graph(2);
  const Program program = lowered(schedule_of(graph, {stage_of(0, 0, graph.ops.size())}), graph);
  for (const Task& task : program.tasks) EXPECT_NE(task.phase, Phase::exchange);
}

TEST(Lower, RunInfoSaysWhatWasAskedFor) {
  const Graph graph = tied_graph(1);  // B = 1, 8 tokens
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, graph.ops.size())}, 5);
  schedule.model = "m";
  schedule.platform = "p";
  schedule.compress = "adatopk:100";
  schedule.seed = 3;
  schedule.predicted_iteration = Seconds(2);
  const RunInfo info = lower(schedule, graph, estimate(graph), star(4)).info;
  EXPECT_EQ(info.model, "m");
  EXPECT_EQ(info.platform, "p");
  EXPECT_EQ(info.policy, "equal-number");
  EXPECT_EQ(info.order, "1f1b");
  EXPECT_EQ(info.compress, "adatopk:100");
  EXPECT_EQ(info.seed, 3u);
  EXPECT_EQ(info.devices_available, 4u);
  EXPECT_EQ(info.micro_batches, 5);
  EXPECT_EQ(info.samples, 5);
  EXPECT_EQ(info.tokens, 5 * graph.tokens_per_sample);
  EXPECT_EQ(info.predicted_iteration, Seconds(2));
}

/// The stages as an order would have them: as many as chunks on each device, those left over joined to the last.
std::vector<Stage> spread(std::vector<Stage> stages, const Order& order) {
  const auto chunks = static_cast<std::size_t>(order.chunks);
  while (stages.size() % chunks != 0) {
    const std::vector<OpId> ops = stages.back().ops;
    stages.pop_back();
    stages.back().ops.insert(stages.back().ops.end(), ops.begin(), ops.end());
  }
  const int num_devices = static_cast<int>(stages.size() / chunks);
  for (std::size_t s = 0; s < stages.size(); ++s)
    stages[s].device = DeviceId(static_cast<std::size_t>(order.device_of(static_cast<int>(s), num_devices)));
  return stages;
}

TEST(Lower, ChunksAndHalvesFollowTheOrder) {
  // Zero bubble V on 2 devices, 1 micro-batch: stages 0 1 1 0 of one layer each. Stages 1 and 2 hand over on device 1.
  const Graph graph = chain_graph(4);
  Schedule schedule = schedule_of(
      graph, spread({stage_of(0, 0, 2), stage_of(0, 2, 3), stage_of(0, 3, 4), stage_of(0, 4, 5)}, find_order("zbv")));
  schedule.order = "zbv";
  const Program program = lowered(schedule, graph);
  ASSERT_EQ(program.devices.size(), 2u);
  EXPECT_EQ(list_of(program, 0),
            "forward 0, send 0, recv 0, forward 0, input gradient 0, send 0, weight gradient 0, recv 0, "
            "input gradient 0, weight gradient 0, update, update");
  EXPECT_EQ(list_of(program, 1),
            "recv 0, forward 0, forward 0, send 0, recv 0, input gradient 0, weight gradient 0, input gradient 0, "
            "send 0, weight gradient 0, update, update");
  const std::vector<StageCosts> costs = stage_costs(schedule, graph, estimate(graph), star(2));
  for (const Task& task : program.tasks) {
    const StageCosts& cost = costs[task.stage.index()];
    if (task.phase == Phase::input_gradient && task.kind == TaskKind::compute) {
      EXPECT_EQ(task.duration, cost.input_gradient);
      EXPECT_EQ(task.codec_duration, cost.backward_codec);
    }
    if (task.phase == Phase::weight_gradient) {
      EXPECT_EQ(task.duration, cost.weight_gradient);
      EXPECT_EQ(program.task(task.after.front()).phase, Phase::input_gradient);
    }
    if (task.kind == TaskKind::send && task.phase == Phase::backward) {
      EXPECT_EQ(program.task(task.after.front()).phase, Phase::input_gradient);
    }
  }
}

// A linear layer of [rows, n] keeps its input for its weight gradient and needs the gradient of its output there: after
// the first half both are held, 2 rows n numbers, where the forward kept one of them.
TEST(Lower, TheFirstHalfOfABackwardLeavesWhatTheSecondNeeds) {
  constexpr std::int64_t rows = 3, n = 5, tensor = rows * n * 4;
  const Graph graph = chain_graph(2, rows, n);
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3)}, 2);
  schedule.order = "zb-h1";
  const Program program = lowered(schedule, graph);
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::compute) continue;
    const bool first = task.phase == Phase::input_gradient, forward = task.phase == Phase::forward;
    EXPECT_EQ(task.allocates, Bytes(forward || first ? tensor : 0));
    EXPECT_EQ(task.frees, Bytes(task.phase == Phase::weight_gradient ? 2 * tensor : 0));
  }
}

TEST(Lower, WhatTwoStagesOfADeviceShareIsHeldOnceAndNotExchanged) {
  // The embedding's table on the first stage and on the last: zbv has both on device 0, 1f1b on two devices.
  const Graph graph = tied_graph(2, 10, 4);
  const std::size_t n = graph.ops.size();
  Schedule schedule = schedule_of(
      graph, spread({stage_of(0, 0, 3), stage_of(0, 3, 4), stage_of(0, 4, 5), stage_of(0, 5, n)}, find_order("zbv")));
  schedule.order = "zbv";
  const Program program = lowered(schedule, graph);
  for (const Task& task : program.tasks) EXPECT_NE(task.phase, Phase::exchange);
  const std::vector<StageCosts> costs = stage_costs(schedule, graph, estimate(graph), star(2));
  const std::int64_t table = 10 * 4 * 16;  // Adam in fp32: 16 bytes each
  EXPECT_EQ(costs[0].parameters, Bytes(table));
  EXPECT_EQ(costs[3].parameters, Bytes(0));
}

/// Random cuts of branching and tied graphs under every order: valid programs that keep the memory model's promise.
TEST(Lower, RandomSchedulesGiveValidPrograms) {
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = seed % 4 == 0 ? tied_graph(8) : branching_graph(10, seed);
    std::vector<Stage> cuts = {stage_of(0, 0, 1)};
    for (std::size_t op = 1; op < graph.ops.size(); ++op) {
      if (cuts.size() < 3 || random() % 3 == 0) cuts.push_back(stage_of(0, 0, 0));
      cuts.back().ops.emplace_back(op);
    }
    for (const char* name : {"gpipe", "1f1b", "interleaved:2", "interleaved:3", "zb-h1", "zbv"}) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      const Order order = find_order(name);
      Schedule schedule = schedule_of(graph, spread(cuts, order), 1 + static_cast<int>(random() % 6));
      schedule.order = name;
      schedule.training.recompute = random() % 2 == 0;
      const Platform platform = star(schedule.stages.size());
      EXPECT_NO_THROW(validate(schedule, graph, platform, "schedule"));
      const Program program = lower(schedule, graph, estimate(graph), platform);
      EXPECT_NO_THROW(validate(program, platform, Sends::buffered, "program"));
      std::set<std::pair<TensorId, StageId>> arrives;
      for (const Task& task : program.tasks)
        if (task.kind == TaskKind::recv && task.phase == Phase::forward)
          arrives.emplace(task.payload.tensor, task.stage);
      for (const CutEdge& edge : schedule.edges)
        EXPECT_NE(arrives.contains({edge.tensor, edge.to}), is_hand_over(schedule, edge));
      const std::vector<StageCosts> costs = stage_costs(schedule, graph, estimate(graph), platform);
      const std::vector<Bytes> needed = memory_by_device(schedule, costs);
      ASSERT_EQ(needed.size(), program.devices.size());
      bool all_have_backward = true;
      for (std::size_t s = 0; s < costs.size(); ++s)
        all_have_backward &= std::ranges::any_of(program.tasks, [&](const Task& task) {
          return task.kind == TaskKind::compute && task.phase != Phase::forward && task.stage == StageId(s);
        });
      for (std::size_t d = 0; d < needed.size(); ++d) {
        const Bytes peak = peak_memory(program, program.devices[d]);
        EXPECT_LE(peak, needed[d]);
        if (all_have_backward) {
          EXPECT_EQ(peak, needed[d]);
        }
      }
    }
  }
}

// Golden cases G5 and G6 for the other orders: p = 4 devices, tf = 1, tb = 2 (halves of 1 where it is split), no
// communication; a chunk of c takes a c-th. Work of a device 3 m, and on top of it
//   interleaved:2, m >= 4   (p - 1) (1 + 2) / 2 = 4.5
//   zb-h1, m >= 4           (p - 1) (1 + 1 - 1) = 3
//   zbv, m >= 7             (p - 1) / 2 = 1.5
// and for m = 1 the longest path: 4 forwards and 4 backwards = 12; zb-h1 has one weight gradient in it, not 4: 9.
TEST(Golden, G5_G6_OtherOrdersOnFourDevices) {
  struct Case {
    const char* order;
    int micro_batches;
    double expected;
  };
  for (const Case& each : {Case{"interleaved:2", 1, 12}, Case{"interleaved:2", 4, 16.5}, Case{"interleaved:2", 8, 28.5},
                           Case{"interleaved:2", 9, 31.5}, Case{"zb-h1", 1, 9}, Case{"zb-h1", 4, 15},
                           Case{"zb-h1", 8, 27}, Case{"zbv", 7, 22.5}, Case{"zbv", 8, 25.5}}) {
    const Order order = find_order(each.order);
    const std::size_t num_stages = 4 * static_cast<std::size_t>(order.chunks);
    const Graph graph = chain_graph(num_stages);
    std::vector<Stage> stages = {stage_of(0, 0, 2)};
    for (std::size_t s = 1; s < num_stages; ++s) stages.push_back(stage_of(0, s + 1, s + 2));
    Schedule schedule = schedule_of(graph, spread(stages, order), each.micro_batches);
    schedule.order = each.order;
    std::vector<double> forward(num_stages + 1, 1e9 / order.chunks), backward(num_stages + 1, 2e9 / order.chunks);
    forward[0] = backward[0] = 0;  // the input
    Platform platform = star_platform(std::vector<double>(4, 1e9), BytesPerSecond(1e18));
    const Program program = lower(schedule, graph, flop_costs(forward, backward), platform);
    EXPECT_NEAR(native_iteration(program, platform).value, each.expected, 1e-6)
        << each.order << " m=" << each.micro_batches;
  }
}

}  // namespace
}  // namespace fusion
