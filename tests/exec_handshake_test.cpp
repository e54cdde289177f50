#include "exec/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/base/file.h"
#include "core/plan/plan.h"
#include "core/platform/platform.h"
#include "core/program/lower.h"
#include "exec/probe.h"
#include "exec/transport_threads.h"
#include "tests/support/temporary_folder.h"

namespace fusion::exec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What each of three ranks throws when rank 2 says something else.
std::vector<std::string> shake(const Identity& others, const Identity& of_rank_2) {
  auto transports = make_thread_transports(3);
  std::vector<std::string> errors(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        handshake(*transports[rank], rank == 2 ? of_rank_2 : others);
      } catch (const InputError& error) {
        errors[rank] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

const Identity agreed{"1", "0.1.0", "3", "fp32", "abc", "def"};

TEST(Handshake, LetsThoseWhoAgreeGoOn) {
  for (const auto& error : shake(agreed, agreed)) EXPECT_EQ(error, "");
}

TEST(Handshake, EndsAllRanksAndNamesBothSides) {
  const std::vector<std::pair<std::string, std::string Identity::*>> items = {
      {"protocol", &Identity::protocol}, {"build", &Identity::build},      {"ranks", &Identity::ranks},
      {"dtype", &Identity::dtype},       {"model", &Identity::model_hash}, {"program", &Identity::program_hash}};
  for (const auto& [name, item] : items) {
    Identity other = agreed;
    other.*item = "another";
    const std::string expected = name + ": rank 0 has " + agreed.*item + ", rank 2 has another; ";
    for (const auto& error : shake(agreed, other)) EXPECT_THAT(error, testing::StartsWith(expected));
  }
}

TEST(Handshake, WantsAsManyRanksAsThePlan) {
  Identity four = agreed;
  four.ranks = "4";
  for (const auto& error : shake(four, four))
    EXPECT_EQ(error, "ranks: the plan is for 4 ranks, 3 were started; start 4 (mpirun -np 4)");
}

Program small_program() {
  Program program;
  program.info.model = "m";
  program.stages = {{DeviceId(0), 0, {OpId(0)}}, {DeviceId(1), 0, {OpId(1)}}};
  program.tasks.resize(2);
  program.tasks[1].kind = TaskKind::send;
  program.tasks[1].after = {TaskId(0)};
  program.devices = {{DeviceId(0), Bytes(1), {{TaskId(0), 0}, {TaskId(1), 1}}}};
  return program;
}

/// Every change that alters what is executed or sent alters the hash; what is estimated does not.
TEST(ProgramHash, FollowsWhatIsExecuted) {
  const std::string hash = program_hash(small_program());
  EXPECT_EQ(hash.size(), 16U);
  EXPECT_EQ(program_hash(small_program()), hash);
  const std::vector<std::function<void(Program&)>> changes = {
      [](Program& p) { p.info.model = "n"; },
      [](Program& p) { p.info.seed = 1; },
      [](Program& p) { p.info.micro_batches = 2; },
      [](Program& p) { p.stages[0].ops.push_back(OpId(2)); },
      [](Program& p) { p.stages[1].device = DeviceId(2); },
      [](Program& p) { p.tasks[0].phase = Phase::backward; },
      [](Program& p) { p.tasks[1].after.clear(); },
      [](Program& p) { p.tasks[1].peer = DeviceId(1); },
      [](Program& p) { p.tasks[1].match = TaskId(1); },
      [](Program& p) {
        p.tasks[1].codec = {CodecKind::topk, 100};
      },
      [](Program& p) {
        p.tasks[1].codec = {CodecKind::none, 2};
      },
      [](Program& p) { p.tasks[1].bytes = Bytes(4); },
      [](Program& p) { p.tasks[1].payload.tensor = TensorId(3); },
      [](Program& p) { p.tasks[1].payload.end = 9; },
      [](Program& p) { p.tasks[0].per_micro_batch = false; },
      [](Program& p) {
        std::vector<Step> steps = expand(p.devices[0].steps);
        std::swap(steps[0], steps[1]);
        p.devices[0].steps = steps;
      },
      [](Program& p) {
        std::vector<Step> steps = expand(p.devices[0].steps);
        steps[0].micro_batch = 1;
        p.devices[0].steps = steps;
      },
      [](Program& p) { p.tasks.emplace_back(); },
  };
  std::vector<std::string> seen = {hash};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Program changed = small_program();
    changes[i](changed);
    EXPECT_THAT(seen, testing::Not(testing::Contains(program_hash(changed)))) << "change " << i;
    seen.push_back(program_hash(changed));
  }
  Program estimated = small_program();
  estimated.tasks[0].duration = Seconds(3);
  estimated.tasks[0].allocates = Bytes(3);
  estimated.devices[0].static_bytes = Bytes(77);
  estimated.info.predicted_iteration = Seconds(9);
  EXPECT_EQ(program_hash(estimated), hash);
}

TEST(ModelHash, FollowsNamesShapesAndAttributes) {
  Graph graph;
  graph.name = "g";
  graph.tensors = {{"x", {2, 3}, DType::fp32, OpId(0), true, {}}};
  graph.parameters = {{"w", {3, 4}, {OpId(0)}}};
  graph.ops = {{"op", OpKind::linear, "", {}, {TensorId(0)}, {ParameterId(0)}, {{"out", std::int64_t{4}}}}};
  const std::vector<std::function<void(Graph&)>> changes = {
      [](Graph&) {},
      [](Graph& g) { g.parameters[0].name = "v"; },
      [](Graph& g) {
        g.parameters[0].shape = {4, 3};
      },
      [](Graph& g) { g.tensors[0].dtype = DType::fp16; },
      [](Graph& g) { g.ops[0].kind = OpKind::relu; },
      [](Graph& g) { g.ops[0].attributes[0].value = 4.0; },
      [](Graph& g) { g.ops[0].attributes[0].value = std::int64_t{5}; },
      [](Graph& g) { g.micro_batch = 2; },
      [](Graph& g) { g.dtype = DType::bf16; },
  };
  std::vector<std::string> seen;
  for (const auto& change : changes) {
    Graph changed = graph;
    change(changed);
    EXPECT_THAT(seen, testing::Not(testing::Contains(model_hash(changed))));
    seen.push_back(model_hash(changed));
  }
}

// Three ranks, 1 MB/s and 10 ms from 0 to 1, 4 MB/s from 1 to 0 and 10 ms, the rest free. Times on the links are those
// of the shape at least, so bandwidths come out no higher, and latencies no lower than (10 + 10) / 2 ms.
TEST(Probe, MeasuresThePairsAndWritesAPlatform) {
  LinkShapes shapes(3, std::vector<std::optional<LinkShape>>(3));
  shapes[0][1] = LinkShape{BytesPerSecond(1e6), Seconds(0.01)};
  shapes[1][0] = LinkShape{BytesPerSecond(4e6), Seconds(0.01)};
  auto transports = make_thread_transports(3, shapes);
  std::vector<ProbeResult> results(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      results[rank] =
          probe(*transports[rank], {.round_trips = 3, .long_enough = Seconds(0.1), .largest = Bytes(1 << 20)});
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(results[1].links.empty());
  const auto& links = results[0].links;
  ASSERT_EQ(links.size(), 6U);
  const TemporaryFolder folder;
  write_text(folder.path() / "probed.toml", probe_platform(results[0], {.name = "probed"}));
  const Platform platform = load_platform(folder.path() / "probed.toml");
  ASSERT_EQ(platform.devices.size(), 3U);
  for (const ProbedLink& link : links) {
    const Route path =
        route(platform, DeviceId(static_cast<std::size_t>(link.from)), DeviceId(static_cast<std::size_t>(link.to)));
    EXPECT_NEAR(path.bandwidth.value, link.bandwidth.value, link.bandwidth.value * 1e-9);
    EXPECT_NEAR(path.latency.value, link.latency.value, 1e-12);
    if (link.from + link.to != 1) continue;
    const auto& shape = *shapes[static_cast<std::size_t>(link.from)][static_cast<std::size_t>(link.to)];
    EXPECT_GE(link.latency.value, 0.01);
    // The round trip that is taken off may itself have been late by as much as this busy machine makes it.
    EXPECT_GE(link.bandwidth.value, shape.bandwidth.value * 0.1);
  }
}

}  // namespace
}  // namespace fusion::exec
