// The table of op kinds: one row says everything the product knows of an operator.
//
// FLOPs follow the field's convention: a multiply-add is 2. `forward`, `input_gradient` and `weight_gradient` are kept
// apart, since a pipeline order may split the backward pass in two. Rows with `matmul_like` are matrix products; the
// "model FLOPs" of a network (golden case G12, MFU) count these alone.
//
// Bias additions, rotary embeddings and the recomputation inside fused attention are left out of them (the convention
// of G12). FLOPs of pointwise and normalising rows are counts of arithmetic per element, an exponential being one;
// memory traffic, not they, decides such an op's time.
//
// Bytes moved are the compulsory traffic with device memory: every input, parameter and output once (an embedding reads
// the rows that it looks up, a reshape moves nothing); backward reads the output's gradient and what was kept, and
// writes the gradients of inputs or parameters. Bytes kept are what libtorch's autograd holds from forward to backward,
// *beside* the parameters; a tensor kept by several ops is kept once, so a row says which inputs and outputs it keeps
// and how many bytes of its own besides (masks, statistics, attention probabilities).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace fusion {

/// An attribute that a row accepts. The type of `fallback` is its type; `required` ones have no default.
struct AttributeSpec {
  std::string_view name;
  AttributeValue fallback;
  bool required = false;
  std::string_view help = {};
};

struct ParameterSpec {
  std::string_view suffix;  ///< "weight" or "bias": the parameter's name is the op's name + "." + suffix
  Shape shape;
};

struct OutputSpec {
  Shape shape;
  DType dtype;
};

/// What a row's functions see: the op's attributes and its tensors' shapes, before or after the op is in a graph.
/// `parameters` of a row sees what `infer` accepted; `costs` sees everything.
struct OpView {
  const Op& op;
  std::vector<const Tensor*> inputs;
  std::vector<const Tensor*> outputs;        ///< empty while shapes are being inferred
  std::vector<const Parameter*> parameters;  ///< likewise
  DType compute_dtype = DType::fp32;
};

struct OpCosts {
  Flops forward{}, input_gradient{}, weight_gradient{};
  Bytes forward_bytes{}, input_gradient_bytes{}, weight_gradient_bytes{};
  Bytes kept_extra{};         ///< own bytes kept for backward, beside the tensors named below
  bool keeps_inputs = false;  ///< autograd holds the inputs
  bool keeps_outputs = false;
};

struct OpRow {
  OpKind kind;
  std::string_view name;
  std::string_view help;
  int min_inputs, max_inputs;  ///< max -1: any number
  bool matmul_like;
  std::vector<AttributeSpec> attributes;
  /// Throws std::invalid_argument: "[conv2d] weight has 3 input channels, input has 4".
  std::vector<OutputSpec> (*infer)(const OpView&);
  std::vector<ParameterSpec> (*parameters)(const OpView&);
  OpCosts (*costs)(const OpView&);
};

/// All rows, in the order of OpKind.
std::span<const OpRow> op_table();
const OpRow& row_of(OpKind);
/// nullptr where there is none.
const OpRow* find_op(std::string_view name);

/// Costs of one op of a graph for one micro-batch. Zero input gradient where no input needs one, zero weight gradient
/// without parameters; an op that no gradient flows through has no backward and keeps nothing.
OpCosts costs_of(const Graph&, OpId);

/// An op of a graph with its tensors, as a row's functions see it. Refers to the graph.
OpView view_of(const Graph&, OpId);

}  // namespace fusion
