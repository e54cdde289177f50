#include "core/graph/ops.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

template <class Tensors>
Bytes total_bytes(const Tensors& tensors) {
  Bytes sum{};
  for (const Tensor* tensor : tensors) sum += bytes_of(*tensor);
  return sum;
}

Bytes parameter_bytes(const OpView& view) {
  Bytes sum{};
  for (const Parameter* parameter : view.parameters)
    sum += Bytes(num_elements(parameter->shape) * size_of(view.compute_dtype));
  return sum;
}

Bytes input_gradients(const OpView& view) {
  Bytes sum{};
  for (const Tensor* tensor : view.inputs)
    if (tensor->needs_gradient) sum += bytes_of(*tensor);
  return sum;
}

bool any_needs_gradient(const std::vector<const Tensor*>& tensors) {
  return std::ranges::any_of(tensors, &Tensor::needs_gradient);
}

}  // namespace

std::span<const OpRow> op_table() {
  static const std::vector<OpRow> table = {
      input_row(),      label_row(),    embedding_row(), linear_row(),  conv2d_row(),        batch_norm_row(),
      layer_norm_row(), rms_norm_row(), relu_row(),      gelu_row(),    silu_row(),          softmax_row(),
      attention_row(),  matmul_row(),   add_row(),       mul_row(),     max_pool_row(),      avg_pool_row(),
      reshape_row(),    concat_row(),   split_row(),     dropout_row(), cross_entropy_row(), upsample_row()};
  return table;
}

const OpRow& row_of(OpKind kind) { return op_table()[static_cast<std::size_t>(kind)]; }

const OpRow* find_op(std::string_view name) {
  const auto rows = op_table();
  const auto found = std::ranges::find(rows, name, &OpRow::name);
  return found == rows.end() ? nullptr : &*found;
}

OpCosts costs_of(const Graph& graph, OpId id) {
  const OpView view = view_of(graph, id);
  const OpCosts full = row_of(view.op.kind).costs(view);
  if (!any_needs_gradient(view.outputs)) return {.forward = full.forward, .forward_bytes = full.forward_bytes};
  OpCosts costs = full;
  if (!any_needs_gradient(view.inputs)) costs.input_gradient = {}, costs.input_gradient_bytes = {};
  if (view.parameters.empty()) costs.weight_gradient = {}, costs.weight_gradient_bytes = {};
  return costs;
}

OpView view_of(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  OpView view{op, {}, {}, {}, graph.dtype};
  for (const TensorId tensor : op.inputs) view.inputs.push_back(&graph.tensor(tensor));
  for (const TensorId tensor : op.outputs) view.outputs.push_back(&graph.tensor(tensor));
  for (const ParameterId parameter : op.parameters) view.parameters.push_back(&graph.parameter(parameter));
  return view;
}

OpCosts with_traffic(const OpView& view, OpCosts costs) {
  const Bytes inputs = total_bytes(view.inputs), outputs = total_bytes(view.outputs);
  const Bytes parameters = parameter_bytes(view);
  const Bytes kept_inputs = costs.keeps_inputs ? inputs : Bytes{};
  const Bytes kept = kept_inputs + (costs.keeps_outputs ? outputs : Bytes{}) + costs.kept_extra;
  costs.forward_bytes += inputs + parameters + outputs;
  costs.input_gradient_bytes += outputs + kept + parameters + input_gradients(view);
  costs.weight_gradient_bytes += outputs + kept_inputs + parameters;
  return costs;
}

OpCosts per_element(const OpView& view, double forward, double backward) {
  const double n = elements(*view.inputs[0]);
  return {.forward = Flops(forward * n), .input_gradient = Flops(backward * n)};
}

std::size_t axis_of(const OpView& view, std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  require(axis >= -signed_rank && axis < signed_rank, view,
          "axis " + std::to_string(axis) + " is outside the " + std::to_string(rank) + " dimensions of the input");
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

void require_picture(const OpView& view, std::size_t i) {
  require(shape_of(view, i).size() == 4, view,
          "input is " + to_string(shape_of(view, i)) + ", a picture is [B, C, H, W]");
}

std::int64_t slide(const OpView& view, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                   std::int64_t padding) {
  require(kernel >= 1, view, "kernel is " + std::to_string(kernel) + ", it must be at least 1");
  require(stride >= 1, view, "stride is " + std::to_string(stride) + ", it must be at least 1");
  require(padding >= 0, view, "padding is " + std::to_string(padding) + ", it must not be negative");
  require(size + 2 * padding >= kernel, view,
          "kernel is " + std::to_string(kernel) + ", the padded input is only " + std::to_string(size + 2 * padding) +
              " wide");
  return (size + 2 * padding - kernel) / stride + 1;
}

}  // namespace fusion
