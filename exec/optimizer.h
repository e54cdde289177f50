// Optimizers on plain arrays: one implementation for every backend, so that copies of a tied parameter stay bit-equal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/estimator.h"

namespace fusion::exec {

struct OptimizerSettings {
  Optimizer kind = Optimizer::adam;
  float learning_rate = 1e-3F;
  float momentum = 0.9F;               ///< momentum
  float beta1 = 0.9F, beta2 = 0.999F;  ///< adam
  float epsilon = 1e-8F;               ///< adam
  float weight_decay = 0;              ///< adam: decoupled (AdamW); sgd and momentum: added to the gradient
  float clip_norm = 0;                 ///< of all gradients together; 0: off
};

/// State of one parameter: nothing for sgd, one array for momentum, two for adam.
struct OptimizerState {
  std::vector<float> first, second;
  bool operator==(const OptimizerState&) const = default;
};
OptimizerState fresh_state(Optimizer, std::size_t elements);

/// One step, `step` counting from 1. The gradient is multiplied by `scale` first (gradient clipping).
/// Kingma & Ba 2015; Loshchilov & Hutter 2019 for the decoupled decay.
void update(const OptimizerSettings&, std::int64_t step, float scale, std::span<float> parameter,
            std::span<const float> gradient, OptimizerState&);

/// min(1, clip / norm) for the global norm; 1 where clipping is off.
float clip_scale(const OptimizerSettings&, double squared_norm);

}  // namespace fusion::exec
