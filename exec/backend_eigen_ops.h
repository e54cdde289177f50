// The ops of the Eigen backend: a forward and a backward function per kind, on row-major floats in host memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/graph/ops.h"
#include "exec/backend.h"

namespace fusion::exec {

using Floats = std::vector<float>;

/// What forward leaves for backward beside the op's inputs and outputs; each op decides what.
struct EigenKept {
  std::vector<Floats> floats;
  std::vector<std::int64_t> places;
};

/// One op in one micro-batch.
struct EigenCall {
  const OpView& view;
  OpId id;
  RunSeed seed;
  int micro_batch;
  std::vector<const HostTensor*> inputs;
  std::vector<std::span<const float>> parameters;
  std::vector<HostTensor*> outputs;  ///< zeros before forward
  EigenKept& kept;

  const Op& op() const { return view.op; }
  std::span<const float> x(std::size_t i = 0) const { return inputs[i]->floats(); }
  std::span<float> y(std::size_t i = 0) const { return outputs[i]->floats(); }
  const Shape& shape(std::size_t i = 0) const { return inputs[i]->shape; }
  const Shape& out_shape() const { return outputs[0]->shape; }
};

/// Backward adds to `inputs` and `parameters`, which are zeros before. An empty input needs no gradient.
struct EigenGradients {
  std::vector<std::span<const float>> outputs;
  std::vector<std::span<float>> inputs, parameters;

  std::span<const float> g(std::size_t i = 0) const { return outputs[i]; }
  std::span<float> dx(std::size_t i = 0) const { return inputs[i]; }
};

struct EigenRow {
  OpKind kind;
  void (*forward)(const EigenCall&);
  void (*backward)(const EigenCall&, const EigenGradients&);
};

/// The rows by family, each in the file of that name (backend_eigen_linear.cpp, …).
std::span<const EigenRow> eigen_linear_rows();
std::span<const EigenRow> eigen_attention_rows();
std::span<const EigenRow> eigen_norm_rows();
std::span<const EigenRow> eigen_pointwise_rows();
std::span<const EigenRow> eigen_shape_rows();

/// A tensor as [outer, length, inner] around one axis; -1 is the last.
struct AxisView {
  std::int64_t outer = 1, length = 1, inner = 1;
};
inline AxisView around(const Shape& shape, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t place = axis < 0 ? axis + rank : axis;
  AxisView view;
  for (std::int64_t i = 0; i < rank; ++i)
    (i < place ? view.outer : i == place ? view.length : view.inner) *= shape[static_cast<std::size_t>(i)];
  return view;
}

}  // namespace fusion::exec
