// Rows that move elements about: reshape, concat, split, max_pool, avg_pool, upsample.
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

std::vector<OutputSpec> infer_reshape(const OpView& view) {
  const Shape &from = shape_of(view, 0), &to = view.op.integers("shape");
  require(num_elements(to) == num_elements(from), view,
          "input " + to_string(from) + " has " + std::to_string(num_elements(from)) + " elements, shape " +
              to_string(to) + " has " + std::to_string(num_elements(to)));
  return {{to, view.inputs[0]->dtype}};
}

/// A view of the same memory.
OpCosts reshape_costs(const OpView&) { return {}; }

OpCosts copy_costs(const OpView& view) { return with_traffic(view, {}); }

std::vector<OutputSpec> infer_concat(const OpView& view) {
  Shape out = shape_of(view, 0);
  const std::size_t axis = axis_of(view, view.op.integer("axis"), out.size());
  for (std::size_t i = 1; i < view.inputs.size(); ++i) {
    Shape part = shape_of(view, i);
    require(view.inputs[i]->dtype == view.inputs[0]->dtype, view, "inputs differ in dtype");
    const bool same_rank = part.size() == out.size();
    const std::int64_t length = same_rank ? part[axis] : 0;
    if (same_rank) part[axis] = out[axis];
    require(part == out, view,
            "input 0 is " + to_string(shape_of(view, 0)) + ", input " + std::to_string(i) + " is " +
                to_string(shape_of(view, i)) + "; they may differ in dimension " + std::to_string(axis) + " alone");
    out[axis] += length;
  }
  return {{out, view.inputs[0]->dtype}};
}

std::vector<OutputSpec> infer_split(const OpView& view) {
  const Shape& in = shape_of(view, 0);
  const std::size_t axis = axis_of(view, view.op.integer("axis"), in.size());
  const auto& sizes = view.op.integers("sizes");
  require(sizes.size() >= 2, view, "sizes is " + to_string(sizes) + ", at least two parts are wanted");
  std::vector<OutputSpec> parts;
  std::int64_t rest = in[axis];
  for (const std::int64_t size : sizes) {
    require(size >= 1, view, "sizes is " + to_string(sizes) + ", each part must be at least 1");
    rest -= size;
    Shape part = in;
    part[axis] = size;
    parts.push_back({part, view.inputs[0]->dtype});
  }
  require(rest == 0, view,
          "sizes " + to_string(sizes) + " don't add up to dimension " + std::to_string(axis) + " of the input " +
              to_string(in));
  return parts;
}

/// Stride 0 is the kernel, as in the field's frameworks.
std::int64_t pool_stride(const Op& op) {
  return op.integer("stride") == 0 ? op.integer("kernel") : op.integer("stride");
}

std::vector<OutputSpec> infer_pool(const OpView& view) {
  require_picture(view);
  const Op& op = view.op;
  const Shape& in = shape_of(view, 0);
  require(op.integer("padding") <= op.integer("kernel") / 2, view,
          "padding is " + std::to_string(op.integer("padding")) + ", more than half the kernel of " +
              std::to_string(op.integer("kernel")));
  const auto slid = [&](std::int64_t size) {
    return slide(view, size, op.integer("kernel"), pool_stride(op), op.integer("padding"));
  };
  return {{{in[0], in[1], slid(in[2]), slid(in[3])}, view.inputs[0]->dtype}};
}

std::vector<OutputSpec> infer_avg_pool(const OpView& view) {
  if (view.op.integer("kernel") != 0) return infer_pool(view);
  require_picture(view);
  require(view.op.integer("stride") == 0 && view.op.integer("padding") == 0, view,
          "a global pool (kernel 0) takes no stride and no padding");
  return {{{shape_of(view, 0)[0], shape_of(view, 0)[1], 1, 1}, view.inputs[0]->dtype}};
}

/// FLOPs per output: one for each element of the window.
OpCosts pool_costs(const OpView& view, double window, Bytes indices) {
  const double n = elements(*view.outputs[0]);
  return with_traffic(
      view,
      {.forward = Flops(n * window), .input_gradient = Flops(n * window), .kept_extra = indices, .keeps_inputs = true});
}

/// Keeps the input and the place (int64) of each maximum.
OpCosts max_pool_costs(const OpView& view) {
  const auto kernel = static_cast<double>(view.op.integer("kernel"));
  return pool_costs(view, kernel * kernel, Bytes(num_elements(view.outputs[0]->shape) * size_of(DType::int64)));
}

OpCosts avg_pool_costs(const OpView& view) {
  const auto kernel = static_cast<double>(view.op.integer("kernel"));
  const double window = kernel == 0 ? elements(*view.inputs[0]) / elements(*view.outputs[0]) : kernel * kernel;
  return pool_costs(view, window, {});
}

std::vector<OutputSpec> infer_upsample(const OpView& view) {
  require_picture(view);
  const Shape& in = shape_of(view, 0);
  const std::int64_t factor = view.op.integer("factor");
  require(factor >= 1 && factor <= max_elements / std::max(in[2], in[3]), view,
          "factor is " + std::to_string(factor) + ", a small number of 1 or more is wanted");
  return {{{in[0], in[1], in[2] * factor, in[3] * factor}, view.inputs[0]->dtype}};
}

/// Backward adds up the gradients of each element's copies.
OpCosts upsample_costs(const OpView& view) {
  return with_traffic(view, {.input_gradient = Flops(elements(*view.outputs[0]))});
}

OpRow shape_row(OpKind kind, std::string_view name, std::string_view help, std::vector<AttributeSpec> attributes,
                std::vector<OutputSpec> (*infer)(const OpView&), OpCosts (*costs)(const OpView&)) {
  return {kind, name, help, 1, 1, false, std::move(attributes), infer, no_parameters, costs};
}

AttributeSpec stride_attribute() { return {"stride", 0, false, "step of the window; 0: the kernel"}; }
AttributeSpec padding_attribute() { return {"padding", 0, false, "added on each side"}; }

}  // namespace

OpRow reshape_row() {
  return shape_row(OpKind::reshape, "reshape", "the same elements in another shape",
                   {{"shape", Shape{}, true, "shape of the output, B included"}}, infer_reshape, reshape_costs);
}

OpRow concat_row() {
  OpRow row = shape_row(OpKind::concat, "concat", "inputs one after another along an axis",
                        {{"axis", 1, false, "axis along which they differ"}}, infer_concat, copy_costs);
  row.min_inputs = 2;
  row.max_inputs = -1;
  return row;
}

OpRow split_row() {
  return shape_row(OpKind::split, "split", "parts along an axis, one output each",
                   {{"axis", -1, false, "axis to cut"}, {"sizes", Shape{}, true, "length of each part"}}, infer_split,
                   copy_costs);
}

OpRow max_pool_row() {
  return shape_row(OpKind::max_pool, "max_pool", "largest of a square window",
                   {{"kernel", 0, true, "height and width of the window"}, stride_attribute(), padding_attribute()},
                   infer_pool, max_pool_costs);
}

OpRow avg_pool_row() {
  return shape_row(OpKind::avg_pool, "avg_pool", "mean of a square window, or of the whole picture",
                   {{"kernel", 0, false, "height and width of the window; 0: the whole picture"},
                    stride_attribute(),
                    padding_attribute()},
                   infer_avg_pool, avg_pool_costs);
}

OpRow upsample_row() {
  return shape_row(OpKind::upsample, "upsample", "repeats each element of a picture (nearest neighbour)",
                   {{"factor", 2, false, "times higher and wider"}}, infer_upsample, upsample_costs);
}

}  // namespace fusion
