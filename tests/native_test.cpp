// The native engine against SimGrid and closed forms.
#include "core/engine/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/base/error.h"
#include "core/plan/plan.h"
#include "core/program/lower.h"
#include "sim/simulate.h"
#include "tests/support/random_program.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DeviceId d0(0UL), d1(1UL), d2(2UL);

bool nightly() { return std::getenv("FUSION_NIGHTLY") != nullptr; }

void expect_same(const Report& native, const Report& simgrid, double tolerance, int which) {
  const auto near = [&](Seconds got, Seconds expected, const std::string& what) {
    EXPECT_NEAR(got.value, expected.value, tolerance * simgrid.iteration.value) << what << " of run " << which;
  };
  near(native.iteration, simgrid.iteration, "iteration");
  for (std::size_t d = 0; d < simgrid.devices.size(); ++d)
    near(native.devices[d].busy, simgrid.devices[d].busy, simgrid.devices[d].name);
  for (std::size_t l = 0; l < simgrid.links.size(); ++l)
    near(native.links[l].busy, simgrid.links[l].busy, simgrid.links[l].from + " > " + simgrid.links[l].to);
}

/// Replays all on SimGrid and compares.
void compare(const std::vector<RandomRun>& runs, double tolerance) {
  std::vector<sim::Job> jobs;
  for (const RandomRun& run : runs) jobs.push_back({&run.program, &run.platform, {}});
  const std::vector<sim::Outcome> outcomes = sim::simulate_all(jobs, 2);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ASSERT_TRUE(outcomes[i].report) << outcomes[i].fault;
    expect_same(simulate_native(runs[i].program, runs[i].platform), *outcomes[i].report, tolerance,
                static_cast<int>(i));
  }
}

TEST(Native, AgreesWithSimGridOnRandomProgramsOverUnsharedLinks) {
  std::mt19937_64 random(21);
  std::vector<RandomRun> runs;
  for (int i = 0; i < (nightly() ? 1000 : 100); ++i) runs.push_back(random_run(random, false));
  compare(runs, 1e-9);
}

// Max-min fair shares are unique, so two right engines differ by rounding; in runs of thousands of contended messages
// that can turn which of two comes first, and grow. These are short.
TEST(Native, AgreesWithSimGridOnRandomProgramsOverSharedLinks) {
  std::mt19937_64 random(22);
  std::vector<RandomRun> runs;
  for (int i = 0; i < (nightly() ? 1000 : 200); ++i) runs.push_back(random_run(random, true));
  compare(runs, 1e-6);
}

TEST(Native, AgreesWithSimGridOnPlansOfShippedPlatforms) {
  std::vector<RandomRun> runs;
  for (const char* platform : {"lan8", "testbed-3", "dtfm-4", "asymmetric-a40"})
    for (const char* policy : {"equal-number", "op-fence"}) {
      RunConfig config;
      config.model = "gpt2";
      config.platform = platform;
      config.policy = policy;
      config.devices = std::string_view(platform) == "dtfm-4" ? 16 : 0;
      config.micro_batches = 12;
      const Problem problem = load_problem(config);
      const Schedule schedule = make_schedule(config, problem);
      runs.push_back({problem.platform, lower(schedule, problem.graph, problem.costs, problem.platform)});
    }
  compare(runs, 1e-6);
}

TEST(Native, TheTwoLoopsAgreeWhereNothingIsShared) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 50; ++i) {
    RandomRun run = random_run(random, false);
    const Report walked = simulate_native(run.program, run.platform, {NativeNetwork::ideal, true});
    // A recv that waits for a computation is left to the event loop.
    const TaskId last = add_compute(run.program, d0, Seconds(0));
    MessageTasks message = add_message(run.program, d1, d0, Bytes(0));
    run.program.tasks[message.recv.index()].after = {last};
    const Report looped = simulate_native(run.program, run.platform, {NativeNetwork::ideal, true});
    EXPECT_NEAR(looped.iteration.value, walked.iteration.value, 1e-12 * walked.iteration.value);
    EXPECT_EQ(looped.timeline.size(), walked.timeline.size() + 3);
  }
}

// Two messages of 10 MB leave a device at once, for two peers, over links of 1 MB/s that are not shared: 10 s each and
// at once, or one after the other.
TEST(Native, OneSendAtATimeTakesTurns) {
  const Platform platform = make_platform({.num_devices = 3, .nic = BytesPerSecond(1e6), .shared = false});
  Program program;
  program.info.micro_batches = 1;
  add_message(program, d0, d1, Bytes(10'000'000));
  add_message(program, d0, d2, Bytes(10'000'000));
  EXPECT_DOUBLE_EQ(native_iteration(program, platform).value, 10);
  EXPECT_DOUBLE_EQ(native_iteration(program, platform, NativeNetwork::no_share).value, 10);
  EXPECT_DOUBLE_EQ(native_iteration(program, platform, NativeNetwork::one_send).value, 20);
}

// The same over one shared NIC: each gets 0.5 MB/s, so both take 20 s; without sharing 10 s.
TEST(Native, ASharedNicIsDivided) {
  const Platform platform = make_platform({.num_devices = 3, .nic = BytesPerSecond(1e6)});
  Program program;
  program.info.micro_batches = 1;
  add_message(program, d0, d1, Bytes(10'000'000));
  add_message(program, d0, d2, Bytes(10'000'000));
  EXPECT_DOUBLE_EQ(native_iteration(program, platform).value, 20);
  EXPECT_DOUBLE_EQ(native_iteration(program, platform, NativeNetwork::no_share).value, 10);
}

TEST(Native, RefusesAStuckProgramInEitherLoop) {
  for (const bool shared : {false, true}) {
    const Platform platform = make_platform({.num_devices = 2, .shared = shared});
    Program program;
    program.info.micro_batches = 1;
    const TaskId first = add_compute(program, d0, Seconds(1));
    const MessageTasks message = add_message(program, d1, d0, Bytes(7), {});
    add_message(program, d0, d1, Bytes(9), {first});
    const TaskId never = add_compute(program, d1, Seconds(1));
    program.tasks[message.send.index()].after = {never};
    program.tasks[never.index()].after = {message.send};
    EXPECT_THAT([&] { simulate_native(program, platform); },
                ThrowsMessage<RuntimeFault>(AllOf(HasSubstr("with work left"), HasSubstr("7 bytes"))));
  }
}

TEST(Native, UnknownNetworkShowsTheValidOnes) {
  EXPECT_THAT([] { find_native_network("idel"); }, ThrowsMessage<InputError>(HasSubstr("did you mean \"ideal\"")));
}

}  // namespace
}  // namespace fusion
