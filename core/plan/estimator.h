// What each op costs on each device, in seconds and bytes: the roofline of FusionLLM as we read it.
//
//   T(o, d) = max( F_o / (lambda_d S_{d,t}), B_o / (mu_d W_d) ) + c_d
//
// F FLOPs, S peak FLOP/s of the dtype, B bytes moved, W memory bandwidth, lambda and mu the sustained shares, c the
// launch overhead (core/platform/platform.h, GpuType). Backward is input gradient and weight gradient, each by the same
// formula. Where the op itself has been measured on such a device, that counts instead: three constants can't say how
// one kernel differs from another (a convolution may reach a twentieth of what another reaches).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/graph/ops.h"
#include "core/platform/platform.h"

namespace fusion {

enum class Optimizer : std::uint8_t { sgd, momentum, adam };
enum class Precision : std::uint8_t {
  fp32,  ///< parameters, activations and gradients in fp32
  fp16,  ///< mixed: fp16 activations, gradients and working copy; fp32 master copy and optimizer state
  bf16   ///< mixed, with bf16
};

/// How the network is trained, as far as it costs time or memory.
struct Training {
  Optimizer optimizer = Optimizer::adam;
  Precision precision = Precision::fp32;
  bool recompute = false;  ///< keep a stage's inputs only, run its forward again before its backward
  bool operator==(const Training&) const = default;
};

std::string_view name_of(Optimizer);
std::string_view name_of(Precision);
/// The inverse of name_of. Throws std::invalid_argument with the nearest names.
Optimizer parse_optimizer(std::string_view);
Precision parse_precision(std::string_view);
DType compute_dtype(Precision);

/// Bytes per parameter that live on a device for the whole run: parameter, gradient, optimizer state, master copy.
/// fp32 Adam: 4 + 4 + 8 = 16. Mixed Adam: 2 + 2 + 12 = 16. fp32 SGD: 8, momentum: 12.
std::int64_t bytes_per_parameter(const Training&);

/// The costs of every op of a graph, once. Index by OpId.
struct Costs {
  std::vector<OpCosts> ops;
};
Costs estimate(const Graph&);

struct OpTimes {
  Seconds forward{}, input_gradient{}, weight_gradient{};
  Seconds backward() const { return input_gradient + weight_gradient; }
  Seconds total() const { return forward + backward(); }
};
/// Roofline of one op on one GPU type: launch_overhead + max(FLOPs / sustained FLOP/s, bytes / sustained bytes/s) /
/// speed. A pass in which the op does nothing (an input; no weights) takes no time.
OpTimes op_times(const OpCosts&, const GpuType&, DType, double speed = 1);
/// As measured on that GPU type, in fp32 and where it was; else the roofline at the speed of its kind. A measured
/// backward pass is divided between its two gradients as the roofline would.
OpTimes op_times(const Graph&, const Costs&, OpId, const GpuType&, DType);

/// Of the memory traffic of an optimizer step.
BytesPerSecond update_bandwidth(const GpuType&);

/// mu W: what a kernel that is bound by memory reaches.
BytesPerSecond sustained_bandwidth(const GpuType&);

/// What ops hold from forward to backward when they stand on one device: tensors, each once however many keep it, and
/// bytes of the ops' own.
struct Kept {
  std::vector<TensorId> tensors;  ///< ascending
  Bytes extra{};
};
Kept kept_for_backward(const Graph&, const Costs&, std::span<const OpId>);
Bytes bytes_of(const Graph&, std::span<const TensorId>);

/// Totals of a whole network for one micro-batch, as `fusion-sim estimate` prints them.
struct Totals {
  std::int64_t parameters = 0;
  Flops forward_flops{}, backward_flops{};  ///< matrix products alone ("model FLOPs", golden case G12)
  Flops other_flops{};                      ///< the rest: norms, activations, softmax
  Bytes activation_bytes{};                 ///< kept from forward to backward
};
Totals totals(const Graph&, const Costs&);

}  // namespace fusion
