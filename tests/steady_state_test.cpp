// What the native engine skips, against the same runs step by step.
#include "core/engine/steady_state.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>

#include "bench/synthetic.h"
#include "core/engine/native.h"
#include "core/program/lower.h"

namespace fusion {
namespace {

constexpr DeviceId d0(0UL);

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 random_;
};

struct Case {
  Platform platform;
  Program program;
};

/// The end of an iteration: an exchange between the first and the last device, and an update of each, which wait for
/// all micro-batches.
void add_ends(Program& program) {
  const std::size_t num_devices = program.devices.size();
  std::vector<std::vector<TaskId>> before(num_devices);
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    if (!is_message(program.tasks[t])) before[program.tasks[t].device.index()] = {TaskId(t)};
  if (num_devices > 1) {
    const std::size_t last = num_devices - 1;
    const auto there = add_message(program, d0, DeviceId(last), Bytes(1'000'000), before[0]);
    const auto back = add_message(program, DeviceId(last), d0, Bytes(1'000'000), before[last]);
    before[last].push_back(there.recv);
    before[0].push_back(back.recv);
  }
  for (std::size_t d = 0; d < num_devices; ++d) add_compute(program, DeviceId(d), Seconds(0.01), before[d]);
}

/// A pipeline whose stages and links differ in one of several ways.
Case random_pipeline(Draw& draw, bool shared) {
  const std::size_t num_devices = 1 + draw.below(8);
  Case run{make_platform({.num_devices = static_cast<int>(num_devices),
                          .num_sites = 1 + static_cast<int>(draw.below(2)),
                          .nic = BytesPerSecond(draw.real(1e7, 1e9)),
                          .uplink = BytesPerSecond(draw.real(1e7, 1e8)),
                          .nic_latency = Seconds(draw.one_in(2) ? 0 : draw.real(0, 1e-3)),
                          .uplink_latency = Seconds(draw.one_in(2) ? 0 : draw.real(0, 2)),  // latency decides
                          .shared = shared}),
           {}};
  if (draw.one_in(3))  // asymmetric links
    for (Link& link : run.platform.links) link.bandwidth = link.bandwidth * draw.real(0.1, 1);
  constexpr std::array orders = {"gpipe", "1f1b", "1f1b", "interleaved:2", "interleaved:3", "zb-h1", "zbv"};
  run.program = make_pipeline(run.platform, {.order = orders[draw.below(orders.size())],
                                             .micro_batches = 100 + static_cast<int>(draw.below(500)),
                                             .forward = Seconds(draw.real(0.01, 0.1)),
                                             .backward = Seconds(draw.real(0.01, 0.1)),
                                             .message = Bytes(static_cast<std::int64_t>(draw.below(3'000'000)))});
  const std::size_t kind = draw.below(4);
  for (Task& task : run.program.tasks) {
    if (kind == 1) task.duration = task.duration * draw.real(0.5, 1.5);
    if (kind == 2 && draw.one_in(3)) task.duration = task.duration * 1.001;  // bottlenecks that are nearly alike
    if (kind == 3 && draw.one_in(3)) task.duration = Seconds(0);
  }
  if (draw.one_in(2)) add_ends(run.program);
  return run;
}

void expect_same(const Report& leapt, const Report& full, double tolerance, int which) {
  const double scale = tolerance * full.iteration.value;
  ASSERT_NEAR(leapt.iteration.value, full.iteration.value, scale) << "run " << which;
  for (std::size_t d = 0; d < full.devices.size(); ++d)
    ASSERT_NEAR(leapt.devices[d].busy.value, full.devices[d].busy.value, scale) << "run " << which;
  for (std::size_t l = 0; l < full.links.size(); ++l)
    ASSERT_NEAR(leapt.links[l].busy.value, full.links[l].busy.value, scale) << "run " << which << " " << l;
}

TEST(SteadyState, SkippingChangesNothing) {
  Draw draw(41);
  const int runs = std::getenv("FUSION_NIGHTLY") != nullptr ? 20'000 : 1000;
  for (int i = 0; i < runs && !testing::Test::HasFailure(); ++i) {
    const Case run = random_pipeline(draw, false);
    const NativeNetwork network = draw.one_in(2) ? NativeNetwork::one_send : NativeNetwork::no_share;
    expect_same(simulate_native(run.program, run.platform, {.network = network}),
                simulate_native(run.program, run.platform, {.network = network, .leap = false}), 1e-9, i);
  }
}

/// The same program with so many micro-batches more, all in the block that repeats itself.
void lengthen(Program& program, std::uint32_t more) {
  program.info.micro_batches += static_cast<int>(more);
  for (DeviceProgram& device : program.devices) {
    StepList longer;
    std::uint32_t added = 0;
    for (const StepList::Block& block : device.steps.blocks()) {
      const bool repeats = block.rounds > 50;
      longer.begin_block(block.rounds + (repeats ? more : 0), block.stride);
      for (Step step : device.steps.round(block)) {
        step.micro_batch += added;
        longer.add(step);
      }
      if (repeats) added = more;
    }
    device.steps = longer;
  }
}

// (m + p - 1) (f + b) = (1,000,000,100 + 3) x 3 s. Step by step that would take minutes.
TEST(SteadyState, ABillionMicroBatches) {
  const Platform platform = make_platform({.num_devices = 4, .shared = false});
  Program program = make_pipeline(platform, {.micro_batches = 100});
  lengthen(program, 1'000'000'000);
  EXPECT_NEAR(native_iteration(program, platform).value, 3.0 * 1'000'000'103, 3.0);
}

// Messages of half a second: the way of a micro-batch there and back takes 12 x 3 s + 22 x 0.5 s = 47 s, and stage 0
// has 12 under way, so they take 47 / 12 s each. A stage takes 3 s for one: a bubble goes round, and the period is that
// of all 12.
TEST(SteadyState, ABubbleThatTravelsIsSkippedToo) {
  const Platform platform = make_platform({.num_devices = 12, .nic = BytesPerSecond(2e6), .shared = false});
  Program program = make_pipeline(platform, {.micro_batches = 400, .message = Bytes(1'000'000)});
  const double short_s = native_iteration(program, platform).value;
  const double full_s = simulate_native(program, platform, {.leap = false}).iteration.value;
  EXPECT_NEAR(short_s, full_s, 1e-9 * full_s);
  lengthen(program, 500'000'000);
  const double long_s = native_iteration(program, platform).value;
  EXPECT_NEAR((long_s - full_s) / 500'000'000, 47.0 / 12, 1e-7);
}

// Stage 1 of a GPipe is late: it does something else for 500 s first. Stage 0 is a little slower, at 1.001 s a forward,
// so stage 1 has caught up after some 500,000 micro-batches, and waits from then on. Between the stages a message takes
// 1 s: the last forward ends 1 + 1 s after stage 0's, the last of 10^6 backwards comes 10^6 s later, and 1 + 1 s after
// it stage 0's.
TEST(SteadyState, ABottleneckThatIsOvertakenOnTheWay) {
  const Platform platform = make_platform({.num_devices = 2, .nic_latency = Seconds(0.5), .shared = false});
  Program program = make_pipeline(platform, {.order = "gpipe", .micro_batches = 1'000'000, .backward = Seconds(1)});
  program.tasks[0].duration = Seconds(1.001);
  const TaskId first = add_compute(program, DeviceId(1UL), Seconds(500));
  StepList list = {{first, 0}};
  for (const StepList::Block& block : program.devices[1].steps.blocks()) {
    if (block.rounds == 1) continue;
    list.begin_block(block.rounds, block.stride);
    for (const Step step : program.devices[1].steps.round(block)) list.add(step);
  }
  program.devices[1].steps = list;
  EXPECT_NEAR(native_iteration(program, platform).value, 1'001'000 + 1 + 1 + 1'000'000 + 1 + 1, 1e-3);
}

TEST(SteadyState, ATimelineHasEveryStep) {
  const Platform platform = make_platform({.num_devices = 3, .shared = false});
  const Program program = make_pipeline(platform, {.micro_batches = 500});
  EXPECT_EQ(simulate_native(program, platform, {.timeline = true}).timeline.size(), num_steps(program));
}

}  // namespace
}  // namespace fusion
