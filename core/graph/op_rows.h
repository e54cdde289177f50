// The rows of the op table by family, and what they share. Only the ops_*.cpp files include this.
#pragma once

#include <stdexcept>
#include <string>

#include "core/graph/ops.h"

namespace fusion {

OpRow input_row();
OpRow label_row();
OpRow embedding_row();
OpRow linear_row();
OpRow conv2d_row();
OpRow batch_norm_row();
OpRow layer_norm_row();
OpRow rms_norm_row();
OpRow relu_row();
OpRow gelu_row();
OpRow silu_row();
OpRow softmax_row();
OpRow attention_row();
OpRow matmul_row();
OpRow add_row();
OpRow mul_row();
OpRow max_pool_row();
OpRow avg_pool_row();
OpRow reshape_row();
OpRow concat_row();
OpRow split_row();
OpRow dropout_row();
OpRow cross_entropy_row();
OpRow upsample_row();

/// Throws std::invalid_argument("[conv2d] message") unless `condition`.
inline void require(bool condition, const OpView& view, const std::string& message) {
  if (!condition) throw std::invalid_argument("[" + std::string(row_of(view.op.kind).name) + "] " + message);
}

inline const Shape& shape_of(const OpView& view, std::size_t input) { return view.inputs[input]->shape; }

/// Elements as double, for FLOPs.
inline double elements(const Tensor& tensor) { return static_cast<double>(num_elements(tensor.shape)); }

/// The output of an op that keeps its input's shape.
inline std::vector<OutputSpec> same_shape(const OpView& view) { return {{shape_of(view, 0), view.inputs[0]->dtype}}; }

inline std::vector<ParameterSpec> no_parameters(const OpView&) { return {}; }

/// -1 is the last axis, as in the field's frameworks.
std::size_t axis_of(const OpView&, std::int64_t axis, std::size_t rank);

/// Throws unless input `i` is [B, C, H, W].
void require_picture(const OpView&, std::size_t i = 0);

/// Output height or width of a window that slides: floor((size + 2 padding - kernel) / stride) + 1.
std::int64_t slide(const OpView&, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding);

/// Adds the compulsory memory traffic to what the row put in the byte fields (see ops.h). `costs` must already say
/// what is kept.
OpCosts with_traffic(const OpView&, OpCosts costs);

/// Costs of a row with `forward` and `backward` FLOPs per element of its first input, and nothing kept.
OpCosts per_element(const OpView&, double forward, double backward);

}  // namespace fusion
