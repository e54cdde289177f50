#include "core/plan/estimator.h"

#include <algorithm>

#include "core/base/names.h"
#include "core/graph/ops.h"

namespace fusion {
namespace {

/// An op that does nothing in a pass launches nothing.
Seconds roofline(Flops work, Bytes moved, const GpuType& gpu, DType dtype, double speed) {
  if (work == Flops(0) && moved == Bytes(0)) return Seconds(0);
  const Seconds computing = work / FlopsPerSecond(gpu.sustained_flops * gpu.peak(dtype).value);
  return std::max(computing, moved / sustained_bandwidth(gpu)) / speed + gpu.launch_overhead;
}

double speed_of(const GpuType& gpu, std::string_view kind) {
  const auto found = std::ranges::lower_bound(gpu.kind_speed, kind, {}, &KindSpeed::kind);
  return found == gpu.kind_speed.end() || found->kind != kind ? 1 : found->speed;
}

struct OptimizerRow {
  Optimizer value;
  std::string_view name;
  std::int64_t state_bytes;  ///< per parameter, in fp32
};
constexpr OptimizerRow optimizer_rows[] = {
    {Optimizer::sgd, "sgd", 0},
    {Optimizer::momentum, "momentum", 4},  // velocity
    {Optimizer::adam, "adam", 8},          // first and second moment
};

struct PrecisionRow {
  Precision value;
  std::string_view name;
  DType compute;
  std::int64_t master_bytes;  ///< per parameter: the fp32 copy that mixed precision updates
};
constexpr PrecisionRow precision_rows[] = {
    {Precision::fp32, "fp32", DType::fp32, 0},
    {Precision::fp16, "fp16", DType::fp16, 4},
    {Precision::bf16, "bf16", DType::bf16, 4},
};

}  // namespace

std::string_view name_of(Optimizer optimizer) { return optimizer_rows[static_cast<std::size_t>(optimizer)].name; }
std::string_view name_of(Precision precision) { return precision_rows[static_cast<std::size_t>(precision)].name; }
Optimizer parse_optimizer(std::string_view name) { return row_named(optimizer_rows, name).value; }
Precision parse_precision(std::string_view name) { return row_named(precision_rows, name).value; }

DType compute_dtype(Precision precision) { return precision_rows[static_cast<std::size_t>(precision)].compute; }

std::int64_t bytes_per_parameter(const Training& training) {
  const PrecisionRow& precision = precision_rows[static_cast<std::size_t>(training.precision)];
  const std::int64_t parameter = size_of(precision.compute), gradient = parameter;
  return parameter + gradient + precision.master_bytes +
         optimizer_rows[static_cast<std::size_t>(training.optimizer)].state_bytes;
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

BytesPerSecond update_bandwidth(const GpuType& gpu) {
  return gpu.update_bandwidth.value > 0 ? gpu.update_bandwidth : sustained_bandwidth(gpu);
}

OpTimes op_times(const OpCosts& costs, const GpuType& gpu, DType dtype, double speed) {
  return {.forward = roofline(costs.forward, costs.forward_bytes, gpu, dtype, speed),
          .input_gradient = roofline(costs.input_gradient, costs.input_gradient_bytes, gpu, dtype, speed),
          .weight_gradient = roofline(costs.weight_gradient, costs.weight_gradient_bytes, gpu, dtype, speed)};
}

OpTimes op_times(const Graph& graph, const Costs& costs, OpId id, const GpuType& gpu, DType dtype) {
  const OpCosts& cost = costs.ops[id.index()];
  const OpTimes roof = op_times(cost, gpu, dtype, speed_of(gpu, row_of(graph.op(id).kind).name));
  const std::string& name = graph.op(id).name;
  const auto found = std::ranges::lower_bound(gpu.measured, name, {}, &MeasuredOp::name);
  if (dtype != DType::fp32 || found == gpu.measured.end() || found->name != name) return roof;
  if (found->forward_flops != cost.forward || found->backward_flops != cost.input_gradient + cost.weight_gradient)
    return roof;
  const double share = roof.backward() > Seconds(0) ? roof.input_gradient / roof.backward() : 1;
  return {.forward = found->forward,
          .input_gradient = found->backward * share,
          .weight_gradient = found->backward * (1 - share)};
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
