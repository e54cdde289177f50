// The SimGrid runner against closed forms and against a naive event list. Every simulation runs in a forked child.
#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <queue>
#include <random>

#include "bench/synthetic.h"
#include "core/base/error.h"
#include "core/program/lower.h"
#include "tests/support/random_program.h"

namespace fusion::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DeviceId d0(0UL), d1(1UL);

Program empty_program() {
  Program program;
  program.info.micro_batches = 1;
  return program;
}

Seconds iteration(const Program& program, const Platform& platform, const std::string& network = "ideal") {
  validate(program, platform, Sends::buffered, "test");
  return simulate_isolated(program, platform, {.network = network}).iteration;
}

/// Two devices with nothing but one link each way between them.
Platform pair(BytesPerSecond bandwidth, Seconds latency) {
  Platform platform = make_platform(
      {.num_devices = 2, .num_sites = 2, .uplink = bandwidth, .uplink_latency = latency, .shared = false});
  for (Host& host : platform.hosts) host.nic.reset();
  for (Link& link : platform.links)
    if (link.name == "s0.in" || link.name == "s1.in") link.latency = Seconds(0);
  return platform;
}

Program one_message(Bytes bytes) {
  Program program = empty_program();
  add_message(program, d0, d1, bytes);
  return program;
}

// 1 Tflop at 1 Tflop/s = 1 s; 50 ms + 8e6 B / 1e6 B/s = 8.05 s; 2 Tflop at 2 Tflop/s = 1 s.
TEST(Golden, G1_ComputeMessageCompute) {
  const Platform platform = pair(BytesPerSecond(1e6), Seconds(0.05));
  Program program = empty_program();
  const TaskId first = add_compute(program, d0, Seconds(1));
  const MessageTasks message = add_message(program, d0, d1, Bytes(8'000'000), {first});
  add_compute(program, d1, Seconds(1), {message.recv});
  EXPECT_NEAR(iteration(program, platform).value, 10.050, 1e-9);
}

// n flows of 1.25 MB over one link of 1.25e8 B/s: all end at n x 0.01 s.
TEST(Golden, G3_ManyFlowsOverOneLinkAllEnd) {
  for (const int n : {1, 101, 200, 2000}) {
    Platform platform = make_platform({.num_devices = 2 * n, .num_sites = 2, .uplink = BytesPerSecond(1.25e8)});
    for (Link& link : platform.links)
      if (link.name == "s1.in") link.shared = false;
    Program program = empty_program();
    for (int i = 0; i < n; ++i)
      add_message(program, DeviceId(static_cast<std::size_t>(i)), DeviceId(static_cast<std::size_t>(n + i)),
                  Bytes(1'250'000));
    const Report report = simulate_isolated(program, platform, {});
    EXPECT_NEAR(report.iteration.value, 0.01 * n, 1e-9 * n) << n;
    for (const LinkReport& link : report.links) ASSERT_NEAR(link.busy.value, 0.01 * n, 1e-9 * n) << link.from;
  }
}

// 1,000,000 x 1 us + 10 s = 11 s.
TEST(Golden, G4_MillionShortOpsAndOneLong) {
  const Platform platform = make_platform({.num_devices = 1});
  Program program = empty_program();
  program.info.micro_batches = 1'000'000;
  Task op;
  op.device = d0;
  op.duration = Seconds(1e-6);
  const TaskId short_op = add_task(program, op);
  program.devices.push_back({d0, {}, {}});
  program.devices[0].steps.begin_block(1'000'000, 1);
  program.devices[0].steps.add({short_op, 0});
  add_compute(program, d0, Seconds(10));
  EXPECT_NEAR(iteration(program, platform).value, 11, 11e-6);
}

Seconds pipeline(const std::string& order, int micro_batches) {
  const Platform platform = make_platform({.num_devices = 4});
  return iteration(make_pipeline(platform, {.order = order, .micro_batches = micro_batches}), platform);
}

// One micro-batch has no overlap: p (tf + tb) = 4 x 3.
TEST(Golden, G5_FewerMicroBatchesThanStages) {
  EXPECT_NEAR(pipeline("1f1b", 1).value, 12, 1e-9);
  EXPECT_NEAR(pipeline("gpipe", 1).value, 12, 1e-9);
}

// (m + p - 1)(tf + tb): m = 4: 7 x 3 = 21; m = 8: 11 x 3 = 33.
TEST(Golden, G6_PipelineMakespan) {
  EXPECT_NEAR(pipeline("1f1b", 4).value, 21, 1e-9);
  EXPECT_NEAR(pipeline("1f1b", 8).value, 33, 1e-9);
  EXPECT_NEAR(pipeline("gpipe", 8).value, 33, 1e-9);
}

TEST(Golden, G7_BufferedSendsBeforeReceivesComplete) {
  // Both send 1 MB at once over their own direction of 1 MB/s.
  Program program = empty_program();
  add_message(program, d0, d1, Bytes(1'000'000));
  add_message(program, d1, d0, Bytes(1'000'000));
  EXPECT_NEAR(iteration(program, pair(BytesPerSecond(1e6), Seconds(0))).value, 1, 1e-9);
}

// LV08: latency x 13.01, and the rate is 0.97 of the bandwidth or of the window of 4 MiB per round trip (twice the
// latency), whichever is less: 1.301 + 1e6 / 0.97e6 = 2.332; 0.6505 + 1e9 / (0.97 x 4194304 / 0.1) = 25.23;
// 0.6505 + 125e6 / (0.97 x 4194304 / 0.1) = 3.723.
TEST(Simulate, TcpProfileSlowsWhatRealTcpSlows) {
  const auto tcp = [](double bandwidth, double latency, std::int64_t bytes) {
    return iteration(one_message(Bytes(bytes)), pair(BytesPerSecond(bandwidth), Seconds(latency)), "tcp").value;
  };
  const double window = 0.97 * 4194304 / 0.1;
  EXPECT_NEAR(tcp(1e6, 0.1, 1'000'000), 1.301 + 1 / 0.97, 1e-4);
  EXPECT_NEAR(tcp(1.25e9, 0.05, 1'000'000'000), 0.6505 + 1e9 / window, 1e-3);
  EXPECT_NEAR(tcp(1.25e8, 0.05, 125'000'000), 0.6505 + 125e6 / window, 1e-3);
}

// On a link that serves both directions the acknowledgements take their 5 %: 1.301 + 1.05 e6 / 0.97e6 = 2.3835.
TEST(Simulate, TcpAcknowledgementsShareALinkOfBothDirections) {
  Platform platform = pair(BytesPerSecond(1e6), Seconds(0.1));
  platform.sites[0].uplink->in = platform.sites[0].uplink->out;
  platform.sites[1].uplink.reset();
  platform.links[0].shared = true;
  EXPECT_NEAR(iteration(one_message(Bytes(1'000'000)), platform, "tcp").value, 1.301 + 1.05 / 0.97, 1e-4);
}

TEST(Simulate, ChannelIsFreeWhileAMessageTravels) {
  // Three messages of 1 s each: they leave at 1, 2, 3 s and arrive 10 s later. The channel is never without one.
  const Platform platform = pair(BytesPerSecond(1e6), Seconds(10));
  Program program = empty_program();
  for (int i = 0; i < 3; ++i) add_message(program, d0, d1, Bytes(1'000'000));
  const Report report = simulate_isolated(program, platform, {});
  EXPECT_NEAR(report.iteration.value, 13, 1e-9);
  EXPECT_NEAR(report.links.at(0).busy.value, 13, 1e-9);
  EXPECT_EQ(report.links[0].messages, 3u);
}

TEST(Simulate, ZeroDurationsAndZeroBytesPass) {
  const Platform platform = pair(BytesPerSecond(1e6), Seconds(0.5));
  for (const std::string network : {"ideal", "tcp"}) {
    Program program = empty_program();
    const TaskId first = add_compute(program, d0, Seconds(0));
    const MessageTasks message = add_message(program, d0, d1, Bytes(0), {first});
    add_compute(program, d1, Seconds(2), {message.recv});
    EXPECT_NEAR(iteration(program, platform, network).value, 2 + (network == "tcp" ? 13.01 : 1) * 0.5, 1e-6);
  }
}

TEST(Simulate, StuckRunListsWhatWaits) {
  const Platform platform = make_platform({.num_devices = 2});
  Program program = empty_program();
  const MessageTasks there = add_message(program, d0, d1, Bytes(7)), back = add_message(program, d1, d0, Bytes(9));
  program.tasks[there.send.index()].after = {back.recv};
  program.tasks[back.send.index()].after = {there.recv};
  EXPECT_THAT([&] { simulate_isolated(program, platform, {}); },
              ThrowsMessage<RuntimeFault>(AllOf(HasSubstr("d0: send activation to d1, 7 bytes"),
                                                HasSubstr("d1: recv activation from d0, 7 bytes"),
                                                HasSubstr("d1: send activation to d0, 9 bytes"))));
}

TEST(Simulate, LongListsOfWaitingTasksAreCut) {
  const Platform platform = make_platform({.num_devices = 30});
  Program program = make_pipeline(platform, {.micro_batches = 2});
  program.tasks[0].after = {TaskId(1UL)};  // the first forward waits for its backward: nothing ever moves
  EXPECT_THAT([&] { simulate_isolated(program, platform, {}); },
              ThrowsMessage<RuntimeFault>(AllOf(HasSubstr("d0: forward stage 0, micro-batch 0 (and 1 more)"),
                                                HasSubstr("\n  and 156 more tasks"))));  // 60 + 4 x 29 - 20
}

TEST(Simulate, UnknownNetworkShowsTheValidOnes) {
  EXPECT_THAT([] { simulate_isolated(one_message(Bytes(1)), make_platform({}), {.network = "idel"}); },
              ThrowsMessage<InputError>(HasSubstr("did you mean \"ideal\"")));
}

TEST(Simulate, SecondRunInOneProcessIsRefused) {
  const Platform platform = make_platform({.num_devices = 2});
  const Program program = one_message(Bytes(1));
  EXPECT_EXIT(
      {
        simulate(program, platform, {});
        try {
          simulate(program, platform, {});
        } catch (const std::logic_error&) {
          _exit(7);
        }
      },
      testing::ExitedWithCode(7), "");
}

TEST(Simulate, CrashOfAChildNamesTheSignal) {
  const Program program = one_message(Bytes(1));
  const Job without_platform{&program, nullptr, {}};
  const std::vector<Outcome> outcomes = simulate_all(std::span(&without_platform, 1), 1);
  ASSERT_FALSE(outcomes[0].report);
  EXPECT_THAT(outcomes[0].fault, HasSubstr("Segmentation fault"));
}

TEST(Simulate, ManyInParallelKeepTheirOrder) {
  const Platform platform = make_platform({.num_devices = 4});
  std::vector<Program> programs;
  for (int m = 1; m <= 40; ++m) programs.push_back(make_pipeline(platform, {.micro_batches = m}));
  programs[9].tasks[0].after = {TaskId(1UL)};
  std::vector<Job> jobs;
  for (const Program& program : programs) jobs.push_back({&program, &platform, {}});
  for (const int processes : {1, 3, 100}) {
    std::vector<std::size_t> progress;
    const auto outcomes = simulate_all(jobs, processes, [&](std::size_t done) { progress.push_back(done); });
    ASSERT_EQ(outcomes.size(), 40u);
    EXPECT_EQ(progress.size(), 40u);
    EXPECT_EQ(progress.back(), 40u);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (i == 9) {
        EXPECT_THAT(outcomes[i].fault, HasSubstr("work left"));
        continue;
      }
      ASSERT_TRUE(outcomes[i].report) << outcomes[i].fault;
      EXPECT_NEAR(outcomes[i].report->iteration.value, 3.0 * (static_cast<double>(i) + 4), 1e-9);
    }
  }
}

TEST(Simulate, SameInputGivesTheSameBytes) {
  const Platform platform = make_platform({.num_devices = 12, .num_sites = 3, .uplink_latency = Seconds(0.03)});
  const Program program = make_pipeline(platform, {.micro_batches = 6, .message = Bytes(40'000'000)});
  const std::string first = write_report(simulate_isolated(program, platform, {}));
  for (int run = 1; run < 20; ++run) ASSERT_EQ(write_report(simulate_isolated(program, platform, {})), first) << run;
}

/// A naive model of a runner for links that are not shared: looks at everything, starts what can start, jumps to the
/// next end.
double naive_iteration(const Program& program, const Platform& platform) {
  struct Flying {
    Step step;
    double end_s;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> done;  // (task, micro-batch) to its end
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> started;
  std::map<DeviceId, double> device_free;
  std::map<Channel, double> channel_free;
  const auto key = [](TaskId task, std::uint32_t m) { return std::pair{task.value, m}; };
  const auto instances = [&](TaskId t) {
    return program.task(t).per_micro_batch ? static_cast<std::uint32_t>(program.info.micro_batches) : 1;
  };
  const auto ready_at = [&](Step s) -> std::optional<double> {
    double at = 0;
    for (const TaskId before : program.task(s.task).after)
      for (std::uint32_t m = 0; m < instances(before); ++m) {
        if (program.task(s.task).per_micro_batch && program.task(before).per_micro_batch && m != s.micro_batch)
          continue;
        const auto found = done.find(key(before, m));
        if (found == done.end()) return {};
        at = std::max(at, found->second);
      }
    return at;
  };
  // Repeated passes over every list, each placing what has its inputs placed; ends are exact since nothing is shared.
  for (bool moved = true; moved;) {
    moved = false;
    for (const DeviceProgram& device : program.devices) {
      std::map<DeviceId, bool> channel_blocked;
      bool device_blocked = false;
      for (const Step s : device.steps) {
        const Task& task = program.task(s.task);
        if (task.kind == TaskKind::recv || started[key(s.task, s.micro_batch)]) continue;
        const bool sends = task.kind == TaskKind::send;
        const auto ready = ready_at(s);
        if (!ready || (sends ? channel_blocked[task.peer] : device_blocked)) {
          (sends ? channel_blocked[task.peer] : device_blocked) = true;
          continue;
        }
        started[key(s.task, s.micro_batch)] = moved = true;
        if (!sends) {
          const double end = std::max(*ready, device_free[task.device]) + task.duration.value;
          done[key(s.task, s.micro_batch)] = device_free[task.device] = end;
          continue;
        }
        const Route path = route(platform, task.device, task.peer);
        double& free = channel_free[{task.device, task.peer}];
        free = std::max(*ready, free) + (task.bytes / path.bandwidth).value;
        done[key(s.task, s.micro_batch)] = done[key(task.match, s.micro_batch)] = free + path.latency.value;
      }
    }
  }
  double last = 0;
  for (const auto& [step, end] : done) last = std::max(last, end);
  return last;
}

TEST(Simulate, AgreesWithANaiveModelOnRandomProgramsOverUnsharedLinks) {
  std::mt19937_64 random(11);
  std::vector<RandomRun> runs;
  for (int round = 0; round < 60; ++round) runs.push_back(random_run(random, false));
  std::vector<Job> jobs;
  for (const RandomRun& run : runs) jobs.push_back({&run.program, &run.platform, {}});
  const std::vector<Outcome> outcomes = simulate_all(jobs, 2);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double expected = naive_iteration(runs[i].program, runs[i].platform);
    ASSERT_TRUE(outcomes[i].report) << outcomes[i].fault;
    EXPECT_GT(expected, 0);
    EXPECT_NEAR(outcomes[i].report->iteration.value, expected, 1e-9 * expected) << i;
  }
}

}  // namespace
}  // namespace fusion::sim
