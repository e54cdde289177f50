// Element by element: relu, gelu, silu, dropout, add, mul.
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

/// Keeps its output: where it is above zero, the gradient passes.
OpCosts relu_costs(const OpView& view) {
  OpCosts costs = per_element(view, 1, 1);
  costs.keeps_outputs = true;
  return with_traffic(view, costs);
}

OpCosts keeps_input(const OpView& view, double forward, double backward) {
  OpCosts costs = per_element(view, forward, backward);
  costs.keeps_inputs = true;
  return with_traffic(view, costs);
}

OpCosts gelu_costs(const OpView& view) { return keeps_input(view, 8, 13); }
OpCosts silu_costs(const OpView& view) { return keeps_input(view, 4, 6); }

std::vector<OutputSpec> infer_dropout(const OpView& view) {
  const double p = view.op.real("p");
  require(p >= 0 && p < 1, view, "p is " + std::to_string(p) + ", it must be in [0, 1)");
  return same_shape(view);
}

/// Keeps a mask of one byte per element.
OpCosts dropout_costs(const OpView& view) {
  OpCosts costs = per_element(view, 2, 1);
  costs.kept_extra = Bytes(view.op.real("p") > 0 ? num_elements(shape_of(view, 0)) : 0);
  return with_traffic(view, costs);
}

/// The second input may be 1 where the first is more: it is repeated along that dimension.
std::vector<OutputSpec> infer_broadcast(const OpView& view) {
  const Shape &a = shape_of(view, 0), &b = shape_of(view, 1);
  bool fits = a.size() == b.size();
  for (std::size_t i = 0; fits && i < a.size(); ++i) fits = b[i] == a[i] || b[i] == 1;
  require(fits, view,
          "inputs are " + to_string(a) + " and " + to_string(b) +
              "; they must be equal, or the second 1 where they differ");
  require(view.inputs[0]->dtype == view.inputs[1]->dtype, view,
          "inputs are " + std::string(name_of(view.inputs[0]->dtype)) + " and " +
              std::string(name_of(view.inputs[1]->dtype)));
  return same_shape(view);
}

/// The output's gradient is both inputs' gradient: no arithmetic but the sum over a repeated dimension.
OpCosts add_costs(const OpView& view) {
  const bool repeated = shape_of(view, 0) != shape_of(view, 1);
  return with_traffic(view, per_element(view, 1, repeated ? 1 : 0));
}

OpCosts mul_costs(const OpView& view) { return keeps_input(view, 1, 2); }

OpRow pointwise(OpKind kind, std::string_view name, std::string_view help, OpCosts (*costs)(const OpView&)) {
  return {kind, name, help, 1, 1, false, {}, same_shape, no_parameters, costs};
}

OpRow binary(OpKind kind, std::string_view name, std::string_view help, OpCosts (*costs)(const OpView&)) {
  return {kind, name, help, 2, 2, false, {}, infer_broadcast, no_parameters, costs};
}

}  // namespace

OpRow relu_row() { return pointwise(OpKind::relu, "relu", "max(x, 0)", relu_costs); }
OpRow silu_row() { return pointwise(OpKind::silu, "silu", "x sigmoid(x)", silu_costs); }

OpRow gelu_row() {
  OpRow row = pointwise(OpKind::gelu, "gelu", "x Phi(x)", gelu_costs);
  row.attributes = {{"tanh", false, false, "the tanh approximation (gelu_new of GPT-2)"}};
  return row;
}

OpRow dropout_row() {
  OpRow row = pointwise(OpKind::dropout, "dropout", "zeroes a random share and scales the rest", dropout_costs);
  row.attributes = {{"p", 0.1, false, "share that becomes zero"}};
  row.infer = infer_dropout;
  return row;
}

OpRow add_row() { return binary(OpKind::add, "add", "a + b; b may be 1 wide where a is wider", add_costs); }
OpRow mul_row() { return binary(OpKind::mul, "mul", "a b; b may be 1 wide where a is wider", mul_costs); }

}  // namespace fusion
