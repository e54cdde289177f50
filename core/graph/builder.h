// Builds a Graph op by op. Every call checks its shapes at once and throws InputError(graph, op, …) that names the op
// and the shapes, so a mistake is found on the line that makes it. A network is a page: see models_vision.cpp, and
// experiments/unet.toml for the same as a file.
//
//   GraphBuilder net("tiny", 8);
//   auto x = net.input("image", {8, 3, 32, 32});
//   x = net.conv2d("conv", x, 16, 3);
//   x = net.unary(OpKind::relu, "relu", x);
//   x = net.unary(OpKind::avg_pool, "pool", x);                                   // the whole picture
//   x = net.unary(OpKind::reshape, "flat", x, {{"shape", Shape{8, 16}}});
//   net.cross_entropy("loss", net.linear("fc", x, 10), net.label("label", {8}));
//   const Graph graph = std::move(net).finish();
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/ops.h"

namespace fusion {

class GraphBuilder {
 public:
  /// `dtype` is that of parameters and activations: fp32, fp16 or bf16. `file` names the source in errors; without it
  /// the graph's own name does. Throws InputError for a micro-batch below 1.
  explicit GraphBuilder(std::string name, std::int64_t micro_batch = 1, DType dtype = DType::fp32,
                        std::string file = {});

  /// Ops added from here on carry this block label.
  void block(std::string label);

  /// Use an existing parameter in place of a fresh one: {"weight", "wte.weight"}.
  struct Tie {
    std::string_view suffix;
    std::string parameter;
  };

  /// Adds one op and returns its outputs, named after it ("x", or "x.0", "x.1", … where there are several).
  /// `attributes` may leave out those with a default. Throws InputError.
  std::vector<TensorId> add(OpKind kind, std::string name, std::vector<TensorId> inputs,
                            std::vector<Attribute> attributes = {}, const std::vector<Tie>& tied = {});

  /// The same, but throws std::invalid_argument without file and op: for a loader that knows the line.
  std::vector<TensorId> append(OpKind kind, std::string name, std::vector<TensorId> inputs,
                               std::vector<Attribute> attributes = {}, const std::vector<Tie>& tied = {});

  // Shorthands, each one op.
  TensorId input(std::string name, Shape shape);
  TensorId tokens(std::string name, Shape shape);  ///< an input of token ids (int64)
  TensorId label(std::string name, Shape shape);
  TensorId embedding(std::string name, TensorId tokens, std::int64_t rows, std::int64_t features);
  TensorId linear(std::string name, TensorId x, std::int64_t out_features, bool bias = true,
                  const std::vector<Tie>& tied = {});
  TensorId conv2d(std::string name, TensorId x, std::int64_t out_channels, std::int64_t kernel, std::int64_t stride = 1,
                  std::int64_t padding = 0, bool bias = false);
  /// relu, gelu, silu, layer_norm, rms_norm, batch_norm, softmax, … : one input, one output, attributes optional.
  TensorId unary(OpKind kind, std::string name, TensorId x, std::vector<Attribute> attributes = {});
  TensorId add(std::string name, TensorId a, TensorId b);
  TensorId mul(std::string name, TensorId a, TensorId b);
  TensorId concat(std::string name, std::vector<TensorId> parts, std::int64_t axis);
  TensorId cross_entropy(std::string name, TensorId logits, TensorId labels);

  /// T of a language model; Graph::tokens_per_sample.
  void tokens_per_sample(std::int64_t tokens);

  const Tensor& tensor(TensorId) const;
  const std::vector<Tensor>& tensors() const { return graph_.tensors; }
  /// Tensor of this name, if it has been made.
  std::optional<TensorId> find_tensor(std::string_view name) const;
  /// Names of the parameters that exist, sorted.
  std::vector<std::string_view> parameter_names() const;

  /// The finished graph. Throws InputError for an empty one, one without parameters (nothing to train), and a tensor
  /// that nobody reads. A cross_entropy may end in nothing, and so may the last op: a network cut before its loss.
  Graph finish() &&;

 private:
  std::vector<TensorId> insert(Op, const OpRow&, const std::vector<OutputSpec>&, const std::vector<ParameterSpec>&,
                               const std::vector<Tie>&);
  ParameterId parameter(const Op&, const OpRow&, const ParameterSpec&, const std::vector<Tie>&);
  bool needs_gradient(const Op&) const;

  Graph graph_;
  std::string file_;
  std::string block_;
  std::map<std::string, OpId, std::less<>> ops_;
  std::map<std::string, TensorId, std::less<>> tensors_;
  std::map<std::string, ParameterId, std::less<>> parameters_;
};

}  // namespace fusion
