// Where tensors come from and where they end: input, label, embedding, cross_entropy.
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

AttributeSpec shape_attribute() { return {"shape", Shape{}, true, "shape for one micro-batch; dimension 0 is B"}; }

OpCosts free_of_cost(const OpView&) { return {}; }

std::vector<OutputSpec> infer_input(const OpView& view) {
  return {{view.op.integers("shape"), view.op.flag("tokens") ? DType::int64 : view.compute_dtype}};
}

std::vector<OutputSpec> infer_label(const OpView& view) { return {{view.op.integers("shape"), DType::int64}}; }

/// Tokens [B, T] give [B, T, features]. Positions don't depend on the sample: [1, T, features].
std::vector<OutputSpec> infer_embedding(const OpView& view) {
  const Shape& tokens = shape_of(view, 0);
  const std::int64_t rows = view.op.integer("rows"), features = view.op.integer("features");
  require(view.inputs[0]->dtype == DType::int64, view, "input must hold token ids (tokens = true)");
  require(rows >= 1 && features >= 1, view,
          "table of " + std::to_string(rows) + " rows x " + std::to_string(features) + " features is empty");
  Shape out = tokens;
  if (view.op.flag("positions")) {
    require(tokens.size() == 2, view, "positions need tokens [B, T], input is " + to_string(tokens));
    require(tokens[1] <= rows, view,
            "table has " + std::to_string(rows) + " positions, input has " + std::to_string(tokens[1]) + " tokens");
    out[0] = 1;
  }
  out.push_back(features);
  return {{out, view.compute_dtype}};
}

std::vector<ParameterSpec> embedding_parameters(const OpView& view) {
  return {{"weight", {view.op.integer("rows"), view.op.integer("features")}}};
}

/// Forward reads the rows that are looked up. The gradient is dense, as libtorch's is by default.
OpCosts embedding_costs(const OpView& view) {
  const Bytes tokens = bytes_of(*view.inputs[0]), out = bytes_of(*view.outputs[0]);
  const Bytes table(num_elements(view.parameters[0]->shape) * size_of(view.compute_dtype));
  return {.weight_gradient = Flops(elements(*view.outputs[0])),
          .forward_bytes = tokens + 2 * out,
          .weight_gradient_bytes = tokens + out + table,
          .keeps_inputs = !view.op.flag("positions")};
}

/// Logits [..., V, ...] with classes on `axis`, labels of the same shape without that axis: the mean loss, a scalar.
std::vector<OutputSpec> infer_cross_entropy(const OpView& view) {
  Shape wanted = shape_of(view, 0);
  require(!wanted.empty(), view, "logits are a scalar, they need an axis of classes");
  const std::size_t axis = axis_of(view, view.op.integer("axis"), wanted.size());
  wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(axis));
  require(view.inputs[0]->dtype != DType::int64, view, "first input must be logits, not integers");
  require(view.inputs[1]->dtype == DType::int64, view, "second input must be a label");
  require(shape_of(view, 1) == wanted, view,
          "logits " + to_string(shape_of(view, 0)) + " need labels " + to_string(wanted) + ", they are " +
              to_string(shape_of(view, 1)));
  return {{Shape{}, DType::fp32}};
}

/// log-softmax is computed in fp32 and its output kept; the logits themselves are not.
OpCosts cross_entropy_costs(const OpView& view) {
  OpCosts costs = per_element(view, 5, 3);
  costs.kept_extra = Bytes(num_elements(shape_of(view, 0)) * size_of(DType::fp32)) + bytes_of(*view.inputs[1]);
  return with_traffic(view, costs);
}

}  // namespace

OpRow input_row() {
  return {OpKind::input,
          "input",
          "what the network reads",
          0,
          0,
          false,
          {shape_attribute(), {"tokens", false, false, "token ids (int64) instead of activations"}},
          infer_input,
          no_parameters,
          free_of_cost};
}

OpRow label_row() {
  return {OpKind::label, "label",     "classes to learn (int64)", 0, 0, false, {shape_attribute()}, infer_label,
          no_parameters, free_of_cost};
}

OpRow embedding_row() {
  return {OpKind::embedding,
          "embedding",
          "table look-up: tokens [B, T] to [B, T, features]",
          1,
          1,
          false,
          {{"rows", 0, true, "size of the vocabulary, or most positions"},
           {"features", 0, true, "C"},
           {"positions", false, false, "look up 0..T-1 in place of the token ids; gives [1, T, features]"}},
          infer_embedding,
          embedding_parameters,
          embedding_costs};
}

OpRow cross_entropy_row() {
  return {OpKind::cross_entropy,
          "cross_entropy",
          "mean softmax cross-entropy of logits and labels, a scalar",
          2,
          2,
          false,
          {{"axis", -1, false, "axis of the classes"}},
          infer_cross_entropy,
          no_parameters,
          cross_entropy_costs};
}

}  // namespace fusion
