// Optimizers on plain arrays: one implementation for every backend, so that copies of a tied parameter stay bit-equal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/estimator.h"

namespace fusion::exec {

struct OptimizerSettings {
  Optimizer kind = Optimizer::adam;
  double learning_rate = 1e-3;
  double momentum = 0.9;              ///< momentum
  double beta1 = 0.9, beta2 = 0.999;  ///< adam
  double epsilon = 1e-8;              ///< adam
  double weight_decay = 0;            ///< adam: decoupled (AdamW); sgd and momentum: added to the gradient
  double clip_norm = 0;               ///< of all gradients together; 0: off
  bool operator==(const OptimizerSettings&) const = default;
};

/// State of one parameter: nothing for sgd, one array for momentum, two for adam.
struct OptimizerState {
  std::vector<float> first, second;
  bool operator==(const OptimizerState&) const = default;
};
OptimizerState fresh_state(Optimizer, std::size_t elements);

/// One step, `step` counting from 1, as PyTorch's SGD, Adam and AdamW take it: arithmetic in fp32, element by element,
/// scalars such as 1 - beta1 in double and then rounded. The gradient g is multiplied by `scale` first (clipping).
///   sgd       p -= lr (g + decay p)
///   momentum  first = momentum first + (g + decay p);  p -= lr first
///   adam      p *= 1 - lr decay;  first = beta1 first + (1 - beta1) g;  second = beta2 second + (1 - beta2) g^2;
///             p -= lr / (1 - beta1^step) first / (sqrt(second) / sqrt(1 - beta2^step) + epsilon)
/// Kingma & Ba 2015, Algorithm 1; Loshchilov & Hutter 2019, Algorithm 2, for the decoupled decay.
void update(const OptimizerSettings&, std::int64_t step, float scale, std::span<float> parameter,
            std::span<const float> gradient, OptimizerState&);

/// Sum of squares in double, in an order that the length alone decides.
double squared_norm(std::span<const float> gradient);

/// min(1, clip / (norm + 1e-6)) for the global norm, as PyTorch's clip_grad_norm_; 1 where clipping is off. A norm that
/// is not a number stays one, so that it reaches the parameters and is seen. Sum the parameters' squares in the order
/// of their ids on every rank, so that all get the same bits.
float clip_scale(const OptimizerSettings&, double squared_norm);

}  // namespace fusion::exec
