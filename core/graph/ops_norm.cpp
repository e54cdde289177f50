// Normalisation: batch_norm, layer_norm, rms_norm, softmax. Statistics are kept in fp32.
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

AttributeSpec eps_attribute(double fallback) { return {"eps", fallback, false, "added to the variance"}; }

void require_eps(const OpView& view) { require(view.op.real("eps") >= 0, view, "eps must not be negative"); }

std::vector<OutputSpec> infer_batch_norm(const OpView& view) {
  require_picture(view);
  require_eps(view);
  return same_shape(view);
}

std::vector<OutputSpec> infer_features(const OpView& view) {
  require(!shape_of(view, 0).empty(), view, "input is a scalar, it needs a dimension of features");
  require_eps(view);
  return same_shape(view);
}

std::vector<ParameterSpec> channel_parameters(const OpView& view) {
  return {{"weight", {shape_of(view, 0)[1]}}, {"bias", {shape_of(view, 0)[1]}}};
}

std::vector<ParameterSpec> feature_parameters(const OpView& view) {
  return {{"weight", {shape_of(view, 0).back()}}, {"bias", {shape_of(view, 0).back()}}};
}

std::vector<ParameterSpec> feature_scale(const OpView& view) { return {{"weight", {shape_of(view, 0).back()}}}; }

/// `forward` FLOPs per element, `backward` for the input and `weight` for the parameters, keeping the input and
/// `statistics` fp32 numbers.
OpCosts norm_costs(const OpView& view, double forward, double backward, double weight, std::int64_t statistics) {
  OpCosts costs = per_element(view, forward, backward);
  costs.weight_gradient = Flops(weight * elements(*view.inputs[0]));
  costs.keeps_inputs = true;
  costs.kept_extra = Bytes(statistics * size_of(DType::fp32));
  return with_traffic(view, costs);
}

std::int64_t num_rows(const OpView& view) { return num_elements(shape_of(view, 0)) / shape_of(view, 0).back(); }

/// Mean and variance (4), then subtract, divide, scale, shift (4). Mean and 1/std of each channel are kept.
OpCosts batch_norm_costs(const OpView& view) { return norm_costs(view, 8, 8, 4, 2 * shape_of(view, 0)[1]); }
OpCosts layer_norm_costs(const OpView& view) { return norm_costs(view, 8, 8, 4, 2 * num_rows(view)); }
/// Square and sum (2), divide, scale (2). 1/rms of each row is kept.
OpCosts rms_norm_costs(const OpView& view) { return norm_costs(view, 4, 6, 3, num_rows(view)); }

std::vector<OutputSpec> infer_softmax(const OpView& view) {
  axis_of(view, view.op.integer("axis"), shape_of(view, 0).size());
  return same_shape(view);
}

/// Maximum, subtract, exponential, sum, divide.
OpCosts softmax_costs(const OpView& view) {
  OpCosts costs = per_element(view, 5, 4);
  costs.keeps_outputs = true;
  return with_traffic(view, costs);
}

}  // namespace

OpRow batch_norm_row() {
  return {OpKind::batch_norm,
          "batch_norm",
          "per channel of [B, C, H, W]",
          1,
          1,
          false,
          {eps_attribute(1e-5)},
          infer_batch_norm,
          channel_parameters,
          batch_norm_costs};
}

OpRow layer_norm_row() {
  return {OpKind::layer_norm,
          "layer_norm",
          "over the last dimension, with mean",
          1,
          1,
          false,
          {eps_attribute(1e-5)},
          infer_features,
          feature_parameters,
          layer_norm_costs};
}

OpRow rms_norm_row() {
  return {OpKind::rms_norm,
          "rms_norm",
          "over the last dimension, without mean and bias",
          1,
          1,
          false,
          {eps_attribute(1e-6)},
          infer_features,
          feature_scale,
          rms_norm_costs};
}

OpRow softmax_row() {
  return {OpKind::softmax, "softmax",     "over one axis", 1, 1, false, {{"axis", -1, false, "axis that sums to 1"}},
          infer_softmax,   no_parameters, softmax_costs};
}

}  // namespace fusion
