// Element by element: relu, gelu, silu, dropout, add, mul.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "exec/backend_eigen_ops.h"
#include "exec/dropout.h"

namespace fusion::exec {
namespace {

/// A number that is not one stays so.
void relu_forward(const EigenCall& call) {
  std::ranges::transform(call.x(), call.y().begin(), [](float x) { return x < 0 ? 0 : x; });
}
void relu_backward(const EigenCall& call, const EigenGradients& gradients) {
  std::ranges::transform(gradients.g(), call.y(), gradients.dx().begin(),
                         [](float g, float y) { return y <= 0 ? 0 : g; });
}

/// The value and the derivative of x Phi(x).
struct Gelu {
  float value, derivative;
};
Gelu gelu_exact(float x) {
  constexpr auto root_half = static_cast<float>(1 / std::numbers::sqrt2);
  constexpr auto density = static_cast<float>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  const float cumulative = 0.5F * (1 + std::erf(x * root_half));
  return {x * cumulative, cumulative + x * density * std::exp(-0.5F * x * x)};
}

/// x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016).
Gelu gelu_tanh(float x) {
  constexpr auto c = static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  constexpr float cubic = 0.044715F;
  const float tanh = std::tanh(c * (x + cubic * x * x * x));
  const float slope = c * (1 + 3 * cubic * x * x);
  return {0.5F * x * (1 + tanh), 0.5F * (1 + tanh) + 0.5F * x * (1 - tanh * tanh) * slope};
}

void gelu_forward(const EigenCall& call) {
  const auto gelu = call.op().flag("tanh") ? gelu_tanh : gelu_exact;
  std::ranges::transform(call.x(), call.y().begin(), [=](float x) { return gelu(x).value; });
}
void gelu_backward(const EigenCall& call, const EigenGradients& gradients) {
  const auto gelu = call.op().flag("tanh") ? gelu_tanh : gelu_exact;
  std::ranges::transform(gradients.g(), call.x(), gradients.dx().begin(),
                         [=](float g, float x) { return g * gelu(x).derivative; });
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void silu_forward(const EigenCall& call) {
  std::ranges::transform(call.x(), call.y().begin(), [](float x) { return x * sigmoid(x); });
}
void silu_backward(const EigenCall& call, const EigenGradients& gradients) {
  std::ranges::transform(gradients.g(), call.x(), gradients.dx().begin(),
                         [](float g, float x) { return g * sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
}

void dropout_forward(const EigenCall& call) {
  Floats& mask = call.kept.floats.emplace_back(
      dropout_mask(call.seed, call.micro_batch, call.id, call.op().real("p"), call.x().size()));
  std::ranges::transform(call.x(), mask, call.y().begin(), std::multiplies<>());
}
void dropout_backward(const EigenCall& call, const EigenGradients& gradients) {
  std::ranges::transform(gradients.g(), call.kept.floats[0], gradients.dx().begin(), std::multiplies<>());
}

/// Calls f(i, j): element i of the first input meets element j of the second, which may be 1 wide where the first is
/// wider.
template <class F>
void each_pair(const EigenCall& call, F f) {
  const Shape &a = call.shape(0), &b = call.shape(1);
  std::vector<std::size_t> steps(a.size());  // of j, when the index of a dimension grows by one
  std::size_t step = 1;
  for (std::size_t d = a.size(); d-- > 0;) {
    steps[d] = b[d] == 1 ? 0 : step;
    step *= static_cast<std::size_t>(b[d]);
  }
  std::vector<std::int64_t> index(a.size());
  std::size_t j = 0;
  const auto elements = static_cast<std::size_t>(num_elements(a));
  for (std::size_t i = 0; i < elements; ++i) {
    f(i, j);
    for (std::size_t d = a.size(); d-- > 0;) {
      j += steps[d];
      if (++index[d] < a[d]) break;
      j -= steps[d] * static_cast<std::size_t>(a[d]);
      index[d] = 0;
    }
  }
}

void add_forward(const EigenCall& call) {
  each_pair(call, [y = call.y(), a = call.x(0), b = call.x(1)](auto i, auto j) { y[i] = a[i] + b[j]; });
}
void add_backward(const EigenCall& call, const EigenGradients& gradients) {
  if (!gradients.dx(0).empty()) std::ranges::copy(gradients.g(), gradients.dx(0).begin());
  if (gradients.dx(1).empty()) return;
  each_pair(call, [db = gradients.dx(1), g = gradients.g()](auto i, auto j) { db[j] += g[i]; });
}

void mul_forward(const EigenCall& call) {
  each_pair(call, [y = call.y(), a = call.x(0), b = call.x(1)](auto i, auto j) { y[i] = a[i] * b[j]; });
}
void mul_backward(const EigenCall& call, const EigenGradients& gradients) {
  const auto g = gradients.g();
  if (!gradients.dx(0).empty())
    each_pair(call, [=, da = gradients.dx(0), b = call.x(1)](auto i, auto j) { da[i] = g[i] * b[j]; });
  if (!gradients.dx(1).empty())
    each_pair(call, [=, db = gradients.dx(1), a = call.x(0)](auto i, auto j) { db[j] += g[i] * a[i]; });
}

}  // namespace

std::span<const EigenRow> eigen_pointwise_rows() {
  static constexpr EigenRow rows[] = {
      {OpKind::relu, relu_forward, relu_backward}, {OpKind::gelu, gelu_forward, gelu_backward},
      {OpKind::silu, silu_forward, silu_backward}, {OpKind::add, add_forward, add_backward},
      {OpKind::mul, mul_forward, mul_backward},    {OpKind::dropout, dropout_forward, dropout_backward}};
  return rows;
}

}  // namespace fusion::exec
