// The ops of the torch backend: one function per kind, from tensors to tensors, differentiated by autograd.
//
// A cut must not change a bit. So an op may not be able to tell whether its neighbour is here or on another rank, where
// every tensor arrives contiguous: ops get contiguous inputs (but for those that are indifferent, see TorchRow), and
// hand back contiguous gradients, one per input.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <tuple>
#include <vector>

#include "exec/backend.h"

namespace fusion::exec {

/// Tensors that follow from attributes alone, made at their first use.
class TorchConstants {
 public:
  explicit TorchConstants(at::Device device) : device_(device) {}
  const at::Device& device() const { return device_; }
  /// [T, T]: 0 where the column is at most the row, else minus infinity.
  const at::Tensor& causal_mask(std::int64_t tokens);
  /// Cosine and sine, [T, features / 2] each.
  const std::pair<at::Tensor, at::Tensor>& rotary(std::int64_t tokens, std::int64_t features, double base);

 private:
  at::Device device_;
  std::map<std::int64_t, at::Tensor> masks_;
  std::map<std::tuple<std::int64_t, std::int64_t, double>, std::pair<at::Tensor, at::Tensor>> rotaries_;
};

/// One op in one micro-batch.
struct TorchCall {
  const Op& op;
  OpId id;
  std::vector<at::Tensor> inputs, parameters;
  RunSeed seed;
  int micro_batch;
  TorchConstants& constants;

  const at::Tensor& x() const { return inputs[0]; }
};

struct TorchRow {
  OpKind kind;
  std::vector<at::Tensor> (*run)(const TorchCall&);
  bool any_strides = false;  ///< what it computes does not hang on the inputs' strides
  bool reads_twice = false;  ///< computes with an input more than once
};
/// nullptr for kinds without a row.
const TorchRow* find_torch_op(OpKind);

std::vector<at::Tensor> torch_attention(const TorchCall&);

}  // namespace fusion::exec
