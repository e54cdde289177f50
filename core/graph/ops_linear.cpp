// Matrix products of an activation and a weight, or of two activations: linear, conv2d, matmul.
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

/// Forward FLOPs `f`; each of the two gradients is one product of the same size.
OpCosts weight_product(const OpView& view, double f) {
  return with_traffic(
      view, {.forward = Flops(f), .input_gradient = Flops(f), .weight_gradient = Flops(f), .keeps_inputs = true});
}

/// [..., in] to [..., out].
std::vector<OutputSpec> infer_linear(const OpView& view) {
  Shape out = shape_of(view, 0);
  require(!out.empty(), view, "input is a scalar, it needs a dimension of features");
  require(view.op.integer("out_features") >= 1, view,
          "out_features is " + std::to_string(view.op.integer("out_features")) + ", it must be at least 1");
  out.back() = view.op.integer("out_features");
  return {{out, view.inputs[0]->dtype}};
}

/// Weight [out, in], as libtorch and an embedding table have it, so that an output layer can be tied to an embedding.
std::vector<ParameterSpec> linear_parameters(const OpView& view) {
  const std::int64_t out = view.op.integer("out_features");
  std::vector<ParameterSpec> specs = {{"weight", {out, shape_of(view, 0).back()}}};
  if (view.op.flag("bias")) specs.push_back({"bias", {out}});
  return specs;
}

/// 2 N in out.
OpCosts linear_costs(const OpView& view) {
  return weight_product(view, 2 * elements(*view.inputs[0]) * static_cast<double>(view.op.integer("out_features")));
}

/// [B, C, H, W] to [B, out_channels, H', W'].
std::vector<OutputSpec> infer_conv2d(const OpView& view) {
  require_picture(view);
  const Op& op = view.op;
  const Shape& in = shape_of(view, 0);
  const std::int64_t out = op.integer("out_channels"), groups = op.integer("groups");
  require(out >= 1 && groups >= 1, view, "out_channels and groups must be at least 1");
  require(in[1] % groups == 0, view,
          "input has " + std::to_string(in[1]) + " channels, which " + std::to_string(groups) + " groups don't divide");
  require(out % groups == 0, view,
          "out_channels is " + std::to_string(out) + ", which " + std::to_string(groups) + " groups don't divide");
  const auto slid = [&](std::int64_t size) {
    return slide(view, size, op.integer("kernel"), op.integer("stride"), op.integer("padding"));
  };
  return {{{in[0], out, slid(in[2]), slid(in[3])}, view.inputs[0]->dtype}};
}

std::vector<ParameterSpec> conv2d_parameters(const OpView& view) {
  const std::int64_t out = view.op.integer("out_channels"), kernel = view.op.integer("kernel");
  const std::int64_t in = shape_of(view, 0)[1] / view.op.integer("groups");
  std::vector<ParameterSpec> specs = {{"weight", {out, in, kernel, kernel}}};
  if (view.op.flag("bias")) specs.push_back({"bias", {out}});
  return specs;
}

/// Every output element is a product of `in / groups x kernel x kernel` numbers.
OpCosts conv2d_costs(const OpView& view) {
  const Shape& weight = view.parameters[0]->shape;
  return weight_product(view, 2 * elements(*view.outputs[0]) * static_cast<double>(weight[1] * weight[2] * weight[3]));
}

/// [..., M, K] x [..., K, N] (or [..., N, K] transposed) to [..., M, N].
std::vector<OutputSpec> infer_matmul(const OpView& view) {
  const Shape &a = shape_of(view, 0), &b = shape_of(view, 1);
  const std::string both = to_string(a) + " and " + to_string(b);
  require(a.size() >= 2 && a.size() == b.size(), view,
          "inputs are " + both + ", two matrices of equal rank are wanted");
  const std::size_t rows = a.size() - 2, columns = a.size() - 1;
  require(std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(rows), b.begin()), view,
          "inputs are " + both + ", their leading dimensions differ");
  const bool transposed = view.op.flag("transpose_b");
  const std::int64_t inner = b[transposed ? columns : rows];
  require(a[columns] == inner, view,
          "inputs are " + both + ", the first has " + std::to_string(a[columns]) + " columns, the second " +
              std::to_string(inner) + (transposed ? " columns (transposed)" : " rows"));
  Shape out = a;
  out[columns] = b[transposed ? rows : columns];
  return {{out, view.inputs[0]->dtype}};
}

/// 2 M K N per matrix; the gradient of each input that needs one is a product of the same size.
OpCosts matmul_costs(const OpView& view) {
  const double f = 2 * elements(*view.outputs[0]) * static_cast<double>(shape_of(view, 0).back());
  const double gradients = view.inputs[0]->needs_gradient + view.inputs[1]->needs_gradient;
  return with_traffic(view, {.forward = Flops(f), .input_gradient = Flops(gradients * f), .keeps_inputs = true});
}

}  // namespace

OpRow linear_row() {
  return {OpKind::linear,
          "linear",
          "x W^T + b over the last dimension",
          1,
          1,
          true,
          {{"out_features", 0, true, "features of the output"}, {"bias", true, false, "adds a bias"}},
          infer_linear,
          linear_parameters,
          linear_costs};
}

OpRow conv2d_row() {
  return {OpKind::conv2d,
          "conv2d",
          "convolution of [B, C, H, W] with a square kernel",
          1,
          1,
          true,
          {{"out_channels", 0, true, "channels of the output"},
           {"kernel", 0, true, "height and width of the kernel"},
           {"stride", 1, false, "step of the kernel"},
           {"padding", 0, false, "zeros added on each side"},
           {"groups", 1, false, "independent groups of channels"},
           {"bias", false, false, "adds a bias"}},
          infer_conv2d,
          conv2d_parameters,
          conv2d_costs};
}

OpRow matmul_row() {
  return {OpKind::matmul,
          "matmul",
          "product of two activations, one per leading index",
          2,
          2,
          true,
          {{"transpose_b", false, false, "the second input is [..., N, K]"}},
          infer_matmul,
          no_parameters,
          matmul_costs};
}

}  // namespace fusion
