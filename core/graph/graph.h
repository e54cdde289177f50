// The OP-DAG: the operators of one network and the tensors between them, for one micro-batch.
//
// Legend of dimensions: B micro-batch (samples), T tokens of a sequence, C channels or features, H x W a picture,
// V vocabulary. Shapes are row-major; dimension 0 is B wherever a tensor depends on the sample.
//
// Invariants, all checked when an op is added (GraphBuilder), so that a Graph that exists is right:
//   - acyclic, and `ops` is a topological order: an op's inputs come from ops before it;
//   - shapes and dtypes follow from the op table (ops.h);
//   - a parameter that several ops use is tied: it stands once in `parameters`, and each of its users names it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace fusion {

enum class DType : std::uint8_t { fp32, fp16, bf16, int64 };

/// Size of one element in bytes.
std::int64_t size_of(DType);
std::string_view name_of(DType);

using Shape = std::vector<std::int64_t>;

/// Largest tensor or parameter that a graph may hold: 2^40 elements, 4 TiB in fp32. It keeps every sum of bytes over a
/// network of thousands of ops inside 63 bits, so that costs need no overflow checks.
inline constexpr std::int64_t max_elements = std::int64_t{1} << 40;

/// Product of the dimensions; 1 for a scalar's shape `[]`. Throws std::invalid_argument, naming the shape, where a
/// dimension is below 1 or the product is above max_elements.
std::int64_t num_elements(const Shape&);
/// "[1, 1024, 768]"
std::string to_string(const Shape&);

/// The kinds of op. One row each in the table of ops.h.
enum class OpKind : std::uint8_t {
  input,
  label,
  embedding,
  linear,
  conv2d,
  batch_norm,
  layer_norm,
  rms_norm,
  relu,
  gelu,
  silu,
  softmax,
  attention,
  matmul,
  add,
  mul,
  max_pool,
  avg_pool,
  reshape,
  concat,
  split,
  dropout,
  cross_entropy,
  upsample
};

/// What configures an op beside its inputs, in the order of its row's attribute list; every attribute of the row is
/// present, defaults filled in.
using AttributeValue = std::variant<std::int64_t, double, bool, std::vector<std::int64_t>>;
struct Attribute {
  std::string name;
  AttributeValue value;
  bool operator==(const Attribute&) const = default;
};

struct Tensor {
  std::string name;
  Shape shape;
  DType dtype = DType::fp32;
  OpId producer;
  bool needs_gradient = true;   ///< false for inputs and labels and what depends on no parameter
  std::vector<OpId> consumers;  ///< ascending
  bool operator==(const Tensor&) const = default;
};

/// A trainable tensor, e.g. "h.0.attn.c_attn.weight".
struct Parameter {
  std::string name;
  Shape shape;
  std::vector<OpId> users;  ///< ascending; more than one where the parameter is tied
  bool operator==(const Parameter&) const = default;
};

struct Op {
  std::string name;
  OpKind kind = OpKind::input;
  std::string block;  ///< label that groups fine ops ("3" of blocks 0..11, "embedding", "head"); may be empty
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<ParameterId> parameters;
  std::vector<Attribute> attributes;
  bool operator==(const Op&) const = default;

  /// Value of an attribute of this op's row; check() fails for a name or type that the row does not have.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
};

struct Graph {
  std::string name;
  std::int64_t micro_batch = 1;        ///< B
  std::int64_t tokens_per_sample = 0;  ///< T of a language model, else 0
  DType dtype = DType::fp32;           ///< of parameters and activations; token ids are int64, the loss fp32
  std::vector<Op> ops;                 ///< a topological order
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;

  const Op& op(OpId id) const { return ops[id.index()]; }
  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  const Parameter& parameter(ParameterId id) const { return parameters[id.index()]; }
  bool operator==(const Graph&) const = default;
};

/// Trainable numbers; a tied parameter counts once.
std::int64_t num_parameters(const Graph&);

Bytes bytes_of(const Tensor&);
/// A parameter takes the graph's dtype; optimizer state and master copies are the estimator's matter.
Bytes bytes_of(const Graph&, const Parameter&);

}  // namespace fusion
