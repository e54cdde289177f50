// Device constants out of a profile: those that made it are found again.
#include "exec/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/graph/models.h"
#include "core/graph/ops.h"
#include "exec/profile_in_place.h"

namespace fusion::exec {
namespace {

/// What a machine of these constants would measure, without noise.
std::vector<OpProfile> profile_by(const Graph& graph, const Costs& costs, const GpuType& gpu) {
  std::vector<OpProfile> profiles;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpTimes times = op_times(graph, costs, OpId(i), gpu, DType::fp32);
    if (times.total() > Seconds(0)) profiles.push_back({OpId(i), times.forward, times.backward()});
  }
  return profiles;
}

GpuType machine() {
  GpuType gpu{.name = "m", .peak_fp32 = FlopsPerSecond(5e10), .peak_fp16 = FlopsPerSecond(5e10), .source = "test"};
  gpu.memory_bandwidth = BytesPerSecond(8e9);
  gpu.sustained_flops = gpu.sustained_bandwidth = 1;
  gpu.launch_overhead = Seconds(20e-6);
  return gpu;
}

// The fit is right where it says the same times as the machine: the split between a kind's speed and the common rates
// is free.
TEST(Profile, FindsTheConstantsThatMadeIt) {
  for (const char* model : {"resnet18", "resnet50"}) {
    const Graph graph = load_model(model, {.micro_batch = 4, .image_size = 32});
    const Costs costs = estimate(graph);
    GpuType gpu = machine();
    gpu.kind_speed = {{"conv2d", 0.25}, {"relu", 2}};
    const std::vector<OpProfile> profiles = profile_by(graph, costs, gpu);
    const MachineFit fit = fit_of(graph, costs, profiles);
    GpuType fitted = machine();
    fitted.peak_fp32 = fit.flops;
    fitted.memory_bandwidth = fit.bandwidth;
    fitted.launch_overhead = fit.overhead;
    fitted.kind_speed = fit.kinds;
    EXPECT_NEAR(fit.overhead.value, 20e-6, 1e-6) << model;
    for (const OpProfile& profile : profiles) {
      const OpTimes times = op_times(graph, costs, profile.op, fitted, DType::fp32);
      // 5 %: an op that is bound by compute may be bound by memory at the fitted rates, or the other way round.
      EXPECT_NEAR(times.forward / profile.forward, 1, 0.05) << model << " " << graph.op(profile.op).name;
    }
  }
}

TEST(Profile, NoConstantIsNegative) {
  const Graph graph = load_model("mlp", {.micro_batch = 4});
  const Costs costs = estimate(graph);
  std::vector<OpProfile> profiles = profile_by(graph, costs, machine());
  // The ops with the most work are the quickest: the best line falls.
  for (OpProfile& profile : profiles) profile.forward = profile.backward = Seconds(1e-8 / profile.forward.value);
  const MachineFit fit = fit_of(graph, costs, profiles);
  EXPECT_GE(fit.overhead.value, 0);
  for (const KindSpeed& kind : fit.kinds) EXPECT_GT(kind.speed, 0) << kind.kind;
}

// Two ops of 1 and 3 s forward, 2 s backward of the first alone: passes of 8 and 1 s give 2, 6 and 1 s.
TEST(Profile, OpsAreScaledToWholePasses) {
  const std::vector<OpProfile> ops = scaled_to({{OpId(0), Seconds(1), Seconds(2)}, {OpId(1), Seconds(3), Seconds(0)}},
                                               {Seconds(8), Seconds(1), BytesPerSecond(1)});
  EXPECT_DOUBLE_EQ(ops[0].forward.value, 2);
  EXPECT_DOUBLE_EQ(ops[1].forward.value, 6);
  EXPECT_DOUBLE_EQ(ops[0].backward.value, 1);
  EXPECT_EQ(ops[1].backward, Seconds(0));
}

TEST(Profile, AnEntryIsReadBackAsItWasMeasured) {
  const MachineFit fit{FlopsPerSecond(4e10), BytesPerSecond(8e9), Seconds(3e-6), {{"conv2d", 0.5}, {"linear", 1.25}}};
  EXPECT_THAT(gpu_entry(fit, BytesPerSecond(2.5e10), "m", Bytes(1LL << 30), "test"),
              testing::AllOf(testing::HasSubstr("update_bandwidth = \"25 GB/s\"\n"),
                             testing::HasSubstr("kind_speed = { conv2d = 0.5, linear = 1.25 }\n"),
                             testing::HasSubstr("launch_overhead = \"3.000 us\"\n")));
}

}  // namespace
}  // namespace fusion::exec
