// Builds a Graph op by op. Every call checks its shapes at once and throws InputError(graph, op, …) that names the op
// and the shapes, so a mistake is found on the line that makes it. A network is a page: see models_*.cpp, and
// experiments/unet.toml for the same as a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace fusion {

class GraphBuilder {
 public:
  /// `file` names the source in errors; a C++ model gives its own name.
  GraphBuilder(std::string name, std::int64_t micro_batch, std::string file = {});

  /// Ops added from here on carry this block label.
  void block(std::string label);

  /// Adds one op and returns its outputs. `attributes` may leave out those with a default. `tied` names existing
  /// parameters to use in place of fresh ones: {"weight", "wte.weight"}.
  struct Tie {
    std::string_view suffix;
    std::string parameter;
  };
  std::vector<TensorId> add(OpKind kind, std::string name, std::vector<TensorId> inputs,
                            std::vector<Attribute> attributes = {}, std::vector<Tie> tied = {});

  // Shorthands, each one op.
  TensorId input(std::string name, Shape shape, DType dtype = DType::fp32);
  TensorId label(std::string name, Shape shape);
  TensorId embedding(std::string name, TensorId tokens, std::int64_t rows, std::int64_t features);
  TensorId linear(std::string name, TensorId x, std::int64_t out_features, bool bias = true,
                  std::vector<Tie> tied = {});
  TensorId conv2d(std::string name, TensorId x, std::int64_t out_channels, std::int64_t kernel, std::int64_t stride = 1,
                  std::int64_t padding = 0, bool bias = false);
  /// relu, gelu, silu, layer_norm, rms_norm, batch_norm, softmax, … : one input, one output, attributes optional.
  TensorId unary(OpKind kind, std::string name, TensorId x, std::vector<Attribute> attributes = {});
  TensorId add(std::string name, TensorId a, TensorId b);
  TensorId mul(std::string name, TensorId a, TensorId b);
  TensorId concat(std::string name, std::vector<TensorId> parts, std::int64_t axis);

  /// T of a language model; Graph::tokens_per_sample.
  void tokens_per_sample(std::int64_t tokens);

  const Tensor& tensor(TensorId) const;

  /// The finished graph; throws InputError for an empty one, or one whose outputs nobody reads but for the loss.
  Graph finish() &&;

 private:
  Graph graph_;
  std::string file_;
  std::string block_;
};

}  // namespace fusion
