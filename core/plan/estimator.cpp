#include "core/plan/estimator.h"

#include <algorithm>

#include "core/base/error.h"

namespace fusion {
namespace {

/// An op that does nothing in a pass launches nothing.
Seconds roofline(Flops work, Bytes moved, const GpuType& gpu, DType dtype) {
  if (work == Flops(0) && moved == Bytes(0)) return Seconds(0);
  const Seconds computing = work / FlopsPerSecond(gpu.sustained_flops * gpu.peak(dtype).value);
  return std::max(computing, moved / sustained_bandwidth(gpu)) + gpu.launch_overhead;
}

std::int64_t optimizer_state_bytes(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return 0;
    case Optimizer::momentum:
      return 4;  // velocity
    case Optimizer::adam:
      return 8;  // first and second moment
  }
  check(false, "an optimizer without a size");
  return 0;
}

}  // namespace

std::string_view name_of(Optimizer optimizer) {
  constexpr std::string_view names[] = {"sgd", "momentum", "adam"};
  return names[static_cast<std::size_t>(optimizer)];
}

std::string_view name_of(Precision precision) {
  constexpr std::string_view names[] = {"fp32", "fp16", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return DType::fp32;
    case Precision::fp16:
      return DType::fp16;
    case Precision::bf16:
      return DType::bf16;
  }
  check(false, "a precision without a dtype");
  return DType::fp32;
}

std::int64_t bytes_per_parameter(const Training& training) {
  const std::int64_t copy = size_of(compute_dtype(training.precision));
  const std::int64_t master = training.precision == Precision::fp32 ? 0 : 4;
  return copy /* parameter */ + copy /* gradient */ + master + optimizer_state_bytes(training.optimizer);
}

BytesPerSecond sustained_bandwidth(const GpuType& gpu) {
  return BytesPerSecond(gpu.sustained_bandwidth * gpu.memory_bandwidth.value);
}

Costs estimate(const Graph& graph) {
  Costs costs;
  costs.ops.reserve(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) costs.ops.push_back(costs_of(graph, OpId(i)));
  return costs;
}

OpTimes op_times(const OpCosts& costs, const GpuType& gpu, DType dtype) {
  return {.forward = roofline(costs.forward, costs.forward_bytes, gpu, dtype),
          .input_gradient = roofline(costs.input_gradient, costs.input_gradient_bytes, gpu, dtype),
          .weight_gradient = roofline(costs.weight_gradient, costs.weight_gradient_bytes, gpu, dtype)};
}

Kept kept_for_backward(const Graph& graph, const Costs& costs, std::span<const OpId> ops) {
  Kept kept;
  for (const OpId id : ops) {
    const OpCosts& cost = costs.ops[id.index()];
    const Op& op = graph.op(id);
    kept.extra += cost.kept_extra;
    if (cost.keeps_inputs) kept.tensors.insert(kept.tensors.end(), op.inputs.begin(), op.inputs.end());
    if (cost.keeps_outputs) kept.tensors.insert(kept.tensors.end(), op.outputs.begin(), op.outputs.end());
  }
  std::ranges::sort(kept.tensors);
  const auto repeated = std::ranges::unique(kept.tensors);
  kept.tensors.erase(repeated.begin(), repeated.end());
  return kept;
}

Bytes bytes_of(const Graph& graph, std::span<const TensorId> tensors) {
  Bytes sum;
  for (const TensorId id : tensors) sum += bytes_of(graph.tensor(id));
  return sum;
}

Totals totals(const Graph& graph, const Costs& costs) {
  Totals sum;
  sum.parameters = num_parameters(graph);
  std::vector<OpId> all;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    all.emplace_back(i);
    const OpCosts& cost = costs.ops[i];
    const Flops backward = cost.input_gradient + cost.weight_gradient;
    if (row_of(graph.ops[i].kind).matmul_like) {
      sum.forward_flops += cost.forward;
      sum.backward_flops += backward;
    } else {
      sum.other_flops += cost.forward + backward;
    }
  }
  const Kept kept = kept_for_backward(graph, costs, all);
  sum.activation_bytes = bytes_of(graph, kept.tensors) + kept.extra;
  return sum;
}

}  // namespace fusion
