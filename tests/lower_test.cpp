// Lowering: what each device gets to do, in which order, and what travels.
#include "core/program/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/plan/stage_costs.h"
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

/// Random cuts of branching and tied graphs under every order: valid programs that keep the memory model's promise.
TEST(Lower, RandomSchedulesGiveValidPrograms) {
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = seed % 4 == 0 ? tied_graph(8) : branching_graph(10, seed);
    std::vector<Stage> stages = {stage_of(0, 0, 1)};
    for (std::size_t op = 1; op < graph.ops.size(); ++op) {
      if (random() % 4 == 0) stages.push_back(stage_of(stages.size(), 0, 0));
      stages.back().ops.emplace_back(op);
    }
    for (const OrderRow& order : order_table()) {
      Schedule schedule = schedule_of(graph, stages, 1 + static_cast<int>(random() % 6));
      schedule.order = order.name;
      schedule.training.recompute = random() % 2 == 0;
      const Platform platform = star(stages.size());
      const Program program = lower(schedule, graph, estimate(graph), platform);
      EXPECT_NO_THROW(validate(program, platform, Sends::buffered, "program")) << seed;
      std::set<std::size_t> sent;
      for (const Task& task : program.tasks)
        if (task.kind == TaskKind::send && task.phase == Phase::forward) sent.insert(task.payload.tensor.index());
      for (const CutEdge& edge : schedule.edges) EXPECT_TRUE(sent.contains(edge.tensor.index()));
      const std::vector<StageCosts> costs = stage_costs(schedule, graph, estimate(graph), platform);
      for (std::size_t s = 0; s < stages.size(); ++s) {
        const int in_flight =
            order.in_flight({static_cast<int>(stages.size()), static_cast<int>(s), schedule.micro_batches});
        EXPECT_LE(peak_memory(program, program.devices[s]), memory_needed(costs[s], in_flight)) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace fusion
