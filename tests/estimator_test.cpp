// The roofline, by hand.
#include "core/plan/estimator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

/// 100 FLOP/s of which half is reached, 1000 B/s of which a quarter is, 1 s to launch.
GpuType slow_gpu() {
  GpuType gpu{.name = "slow", .peak_fp32 = FlopsPerSecond(100), .peak_fp16 = FlopsPerSecond(200), .source = "test"};
  gpu.peak_bf16 = FlopsPerSecond(100);
  gpu.memory_bandwidth = BytesPerSecond(1000);
  gpu.sustained_flops = 0.5;
  gpu.sustained_bandwidth = 0.25;
  gpu.launch_overhead = Seconds(1);
  return gpu;
}

TEST(Estimator, TimeIsTheLargerOfComputeAndMemoryPlusLaunch) {
  OpCosts costs;
  costs.forward = Flops(500);  // 500 / (0.5 x 100) = 10 s against 250 / (0.25 x 1000) = 1 s
  costs.forward_bytes = Bytes(250);
  costs.input_gradient = Flops(50);  // 1 s against 2500 / 250 = 10 s
  costs.input_gradient_bytes = Bytes(2500);
  const OpTimes times = op_times(costs, slow_gpu(), DType::fp32);
  EXPECT_DOUBLE_EQ(times.forward.value, 11);
  EXPECT_DOUBLE_EQ(times.input_gradient.value, 11);
  EXPECT_DOUBLE_EQ(times.weight_gradient.value, 0);  // nothing to do: nothing is launched
  EXPECT_DOUBLE_EQ(times.backward().value, 11);
  EXPECT_DOUBLE_EQ(times.total().value, 22);
}

TEST(Estimator, SpeedFollowsTheDType) {
  OpCosts costs;
  costs.forward = Flops(500);
  EXPECT_DOUBLE_EQ(op_times(costs, slow_gpu(), DType::fp16).forward.value, 6);
  EXPECT_DOUBLE_EQ(op_times(costs, slow_gpu(), DType::bf16).forward.value, 11);
}

// An op of the name and the FLOPs of a measured one takes what was measured; backward is shared out as by the roofline.
TEST(Estimator, AMeasuredOpCountsBeforeTheRoofline) {
  const Graph graph = load_model("mlp", {});
  Costs costs = estimate(graph);
  const auto op = static_cast<std::size_t>(
      std::ranges::find_if(graph.ops, [](const Op& each) { return each.kind == OpKind::linear; }) - graph.ops.begin());
  OpCosts& cost = costs.ops[op];
  cost = {.forward = Flops(500), .input_gradient = Flops(50), .weight_gradient = Flops(150)};
  // Roofline at 50 FLOP/s and 1 s to launch: forward 11 s, gradients 2 s and 4 s.
  GpuType gpu = slow_gpu();
  EXPECT_DOUBLE_EQ(op_times(graph, costs, OpId(op), gpu, DType::fp32).forward.value, 11);
  gpu.measured = {{graph.ops[op].name, Flops(500), Flops(200), Seconds(3), Seconds(9)}};
  const OpTimes times = op_times(graph, costs, OpId(op), gpu, DType::fp32);
  EXPECT_DOUBLE_EQ(times.forward.value, 3);
  EXPECT_DOUBLE_EQ(times.input_gradient.value, 3);  // 2 / 6 of 9 s
  EXPECT_DOUBLE_EQ(times.weight_gradient.value, 6);
  // Not in another dtype, nor for an op of another network that has only the name in common.
  EXPECT_DOUBLE_EQ(op_times(graph, costs, OpId(op), gpu, DType::bf16).forward.value, 11);
  gpu.measured.front().backward_flops = Flops(201);
  EXPECT_DOUBLE_EQ(op_times(graph, costs, OpId(op), gpu, DType::fp32).forward.value, 11);
}

// Work at half its roofline speed takes twice as long; to launch an op takes what it did: 1 + 10 x 2 s.
TEST(Estimator, AKindHasASpeedOfItsOwn) {
  const Graph graph = load_model("mlp", {});
  Costs costs = estimate(graph);
  const auto op = static_cast<std::size_t>(
      std::ranges::find_if(graph.ops, [](const Op& each) { return each.kind == OpKind::linear; }) - graph.ops.begin());
  costs.ops[op] = {.forward = Flops(500)};
  GpuType gpu = slow_gpu();
  gpu.kind_speed = {{"conv2d", 4}, {"linear", 0.5}};
  EXPECT_DOUBLE_EQ(op_times(graph, costs, OpId(op), gpu, DType::fp32).forward.value, 21);
}

// fp32: parameter 4, gradient 4, state. Mixed: parameter 2, gradient 2, fp32 master 4, state in fp32.
TEST(Estimator, BytesPerParameter) {
  using enum Optimizer;
  const auto bytes = [](Optimizer optimizer, Precision precision) {
    return bytes_per_parameter({.optimizer = optimizer, .precision = precision});
  };
  EXPECT_EQ(bytes(sgd, Precision::fp32), 8);
  EXPECT_EQ(bytes(momentum, Precision::fp32), 12);
  EXPECT_EQ(bytes(adam, Precision::fp32), 16);
  for (const Precision mixed : {Precision::fp16, Precision::bf16}) {
    EXPECT_EQ(bytes(sgd, mixed), 8);
    EXPECT_EQ(bytes(momentum, mixed), 12);
    EXPECT_EQ(bytes(adam, mixed), 16);
  }
}

TEST(Estimator, NamesAreReadBack) {
  for (const Optimizer each : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam})
    EXPECT_EQ(parse_optimizer(name_of(each)), each);
  for (const Precision each : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    EXPECT_EQ(parse_precision(name_of(each)), each);
    EXPECT_EQ(name_of(compute_dtype(each)), name_of(each));
  }
  EXPECT_THROW(parse_optimizer("adamw"), std::invalid_argument);
  EXPECT_THROW(parse_precision("fp8"), std::invalid_argument);
}

// Three linear layers 4 -> 4 on 2 rows: each 2 x 2 x 4 x 4 = 64 FLOPs forward and weight gradient; the first has no
// input gradient, since the network's input needs none.
TEST(Estimator, TotalsCountMatrixProductsAlone) {
  const Graph graph = chain_graph(3);
  const Totals sum = totals(graph, estimate(graph));
  EXPECT_EQ(sum.parameters, 3 * (16 + 4));
  EXPECT_DOUBLE_EQ(sum.forward_flops.value, 3 * 64);
  EXPECT_DOUBLE_EQ(sum.backward_flops.value, 3 * 64 + 2 * 64);
}

TEST(Estimator, OtherFlopsStandApart) {
  GraphBuilder net("one", 2);
  TensorId x = net.linear("l", net.input("x", {2, 4}), 4);
  net.unary(OpKind::gelu, "g", x);
  const Graph graph = std::move(net).finish();
  const Costs costs = estimate(graph);
  const Totals sum = totals(graph, costs);
  EXPECT_DOUBLE_EQ(sum.forward_flops.value, 64);
  EXPECT_DOUBLE_EQ(sum.backward_flops.value, 64);
  const OpCosts& gelu = costs.ops.back();
  EXPECT_GT(gelu.forward.value, 0);
  EXPECT_DOUBLE_EQ(sum.other_flops.value, (gelu.forward + gelu.input_gradient + gelu.weight_gradient).value);
}

// One tensor read by two layers that both keep it is held once: x of 2 x 4 fp32, 32 bytes.
TEST(Estimator, WhatTwoOpsKeepIsKeptOnce) {
  GraphBuilder net("fork", 2);
  const TensorId x = net.input("x", {2, 4});
  net.add("sum", net.linear("a", x, 4), net.linear("b", x, 4));
  const Graph graph = std::move(net).finish();
  Costs costs = flop_costs({0, 0, 0, 0}, {0, 0, 0, 0});
  costs.ops[1].keeps_inputs = costs.ops[2].keeps_inputs = true;  // a, b
  costs.ops[1].kept_extra = Bytes(5);
  costs.ops[2].keeps_outputs = true;
  EXPECT_EQ(totals(graph, costs).activation_bytes, Bytes(32 + 32 + 5));
}

}  // namespace
}  // namespace fusion
