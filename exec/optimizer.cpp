#include "exec/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

float rounded(double scalar) { return static_cast<float>(scalar); }

/// By squaring: the same bits on every machine, which libm's pow does not promise.
double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) result *= base;
  return result;
}

void sgd(const OptimizerSettings& settings, float scale, std::span<float> parameter, std::span<const float> gradient) {
  const float rate = rounded(settings.learning_rate), decay = rounded(settings.weight_decay);
  for (std::size_t i = 0; i < parameter.size(); ++i)
    parameter[i] -= rate * (scale * gradient[i] + decay * parameter[i]);
}

void momentum(const OptimizerSettings& settings, float scale, std::span<float> parameter,
              std::span<const float> gradient, std::span<float> velocity) {
  const float rate = rounded(settings.learning_rate), decay = rounded(settings.weight_decay);
  const float kept = rounded(settings.momentum);
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    velocity[i] = kept * velocity[i] + (scale * gradient[i] + decay * parameter[i]);
    parameter[i] -= rate * velocity[i];
  }
}

void adam(const OptimizerSettings& settings, std::int64_t step, float scale, std::span<float> parameter,
          std::span<const float> gradient, OptimizerState& state) {
  const double correction1 = 1 - power(settings.beta1, step);
  const double correction2 = 1 - power(settings.beta2, step);
  const float shrink = rounded(1 - settings.learning_rate * settings.weight_decay);
  const float beta1 = rounded(settings.beta1), rest1 = rounded(1 - settings.beta1);
  const float beta2 = rounded(settings.beta2), rest2 = rounded(1 - settings.beta2);
  const float rate = rounded(settings.learning_rate / correction1), spread = rounded(std::sqrt(correction2));
  const float epsilon = rounded(settings.epsilon);
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const float g = scale * gradient[i];
    const float first = state.first[i] = beta1 * state.first[i] + rest1 * g;
    const float second = state.second[i] = beta2 * state.second[i] + rest2 * (g * g);
    parameter[i] = shrink * parameter[i] - rate * (first / (std::sqrt(second) / spread + epsilon));
  }
}

}  // namespace

OptimizerState fresh_state(Optimizer kind, std::size_t elements) {
  OptimizerState state;
  if (kind != Optimizer::sgd) state.first.resize(elements);
  if (kind == Optimizer::adam) state.second.resize(elements);
  return state;
}

void update(const OptimizerSettings& settings, std::int64_t step, float scale, std::span<float> parameter,
            std::span<const float> gradient, OptimizerState& state) {
  const std::size_t n = parameter.size();
  check(step >= 1, "optimizer steps count from 1");
  check(gradient.size() == n, "a gradient of another parameter");
  check(state.first.size() == (settings.kind == Optimizer::sgd ? 0 : n) &&
            state.second.size() == (settings.kind == Optimizer::adam ? n : 0),
        "optimizer state of another parameter or optimizer");
  switch (settings.kind) {
    case Optimizer::sgd:
      return sgd(settings, scale, parameter, gradient);
    case Optimizer::momentum:
      return momentum(settings, scale, parameter, gradient, state.first);
    case Optimizer::adam:
      return adam(settings, step, scale, parameter, gradient, state);
  }
}

double squared_norm(std::span<const float> gradient) {
  constexpr std::size_t width = 8;  // sums side by side, or each addition would wait for the one before it
  std::array<double, width> lanes{};
  for (std::size_t start = 0; start < gradient.size(); start += width) {
    const auto block = gradient.subspan(start, std::min(width, gradient.size() - start));
    for (std::size_t lane = 0; lane < block.size(); ++lane)
      lanes[lane] += static_cast<double>(block[lane]) * static_cast<double>(block[lane]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

float clip_scale(const OptimizerSettings& settings, double squared_norm) {
  if (settings.clip_norm == 0) return 1;
  const double scale = settings.clip_norm / (std::sqrt(squared_norm) + 1e-6);
  return scale >= 1 ? 1 : rounded(scale);
}

}  // namespace fusion::exec
