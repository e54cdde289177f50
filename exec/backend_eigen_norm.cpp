// What divides by a sum over a group: batch_norm, layer_norm, rms_norm, softmax, cross_entropy. Sums are in double.
#include <algorithm>
#include <cmath>

#include "exec/backend_eigen_ops.h"
#include "exec/index_range.h"

namespace fusion::exec {
namespace {

/// How elements are grouped: element (group, i) and the feature whose weight it gets.
struct Grouping {
  std::int64_t groups, size;
  std::int64_t (*place)(const Shape&, std::int64_t group, std::int64_t i);
  bool feature_is_group;  ///< of a channel; else the feature is i
  std::size_t feature(std::int64_t group, std::int64_t i) const {
    return static_cast<std::size_t>(feature_is_group ? group : i);
  }
};

/// A group is a channel of [B, C, H, W].
Grouping by_channel(const Shape& shape) {
  return {shape[1], num_elements(shape) / shape[1],
          [](const Shape& s, std::int64_t channel, std::int64_t i) {
            const std::int64_t area = s[2] * s[3];
            return (i / area * s[1] + channel) * area + i % area;
          },
          true};
}

/// A group is a row: all of the last dimension.
Grouping by_row(const Shape& shape) {
  return {num_elements(shape) / shape.back(), shape.back(),
          [](const Shape& s, std::int64_t row, std::int64_t i) { return row * s.back() + i; }, false};
}

enum NormKept { means, scales };  ///< per group: the mean, and 1 / sqrt(variance + eps)

/// y = (x - mean) / sqrt(variance + eps) weight + bias.
void norm_forward(const EigenCall& call, const Grouping& by, bool centred) {
  const auto x = call.x();
  const auto at = [&](std::int64_t group, std::int64_t i) {
    return static_cast<std::size_t>(by.place(call.shape(), group, i));
  };
  call.kept.floats.resize(2);
  for (std::int64_t group = 0; group < by.groups; ++group) {
    double sum = 0, squares = 0;
    if (centred)
      for (std::int64_t i = 0; i < by.size; ++i) sum += static_cast<double>(x[at(group, i)]);
    const double mean = sum / static_cast<double>(by.size);
    for (std::int64_t i = 0; i < by.size; ++i) {
      const double distance = static_cast<double>(x[at(group, i)]) - mean;
      squares += distance * distance;
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(by.size) + call.op().real("eps"));
    call.kept.floats[means].push_back(static_cast<float>(mean));
    call.kept.floats[scales].push_back(static_cast<float>(scale));
    for (std::int64_t i = 0; i < by.size; ++i) {
      const std::size_t feature = by.feature(group, i);
      const float bias = call.parameters.size() > 1 ? call.parameters[1][feature] : 0;
      const auto scaled = static_cast<float>((static_cast<double>(x[at(group, i)]) - mean) * scale);
      call.y()[at(group, i)] = scaled * call.parameters[0][feature] + bias;
    }
  }
}

/// With z = (x - mean) scale and h = g weight: dx = scale (h - mean(h) - z mean(h z)), the mean of h left out where
/// the group isn't centred; dweight = sum(g z), dbias = sum(g).
void norm_backward(const EigenCall& call, const EigenGradients& gradients, const Grouping& by, bool centred) {
  const auto x = call.x(), g = gradients.g();
  const auto at = [&](std::int64_t group, std::int64_t i) {
    return static_cast<std::size_t>(by.place(call.shape(), group, i));
  };
  std::vector<double> weight(call.parameters[0].size()), bias(weight.size());
  for (std::int64_t group = 0; group < by.groups; ++group) {
    const auto mean = static_cast<double>(call.kept.floats[means][static_cast<std::size_t>(group)]);
    const auto scale = static_cast<double>(call.kept.floats[scales][static_cast<std::size_t>(group)]);
    const auto z = [&](std::int64_t i) { return (static_cast<double>(x[at(group, i)]) - mean) * scale; };
    double h_sum = 0, hz_sum = 0;
    for (std::int64_t i = 0; i < by.size; ++i) {
      const std::size_t feature = by.feature(group, i);
      const auto gradient = static_cast<double>(g[at(group, i)]), normal = z(i);
      const double h = gradient * static_cast<double>(call.parameters[0][feature]);
      weight[feature] += gradient * normal;
      bias[feature] += gradient;
      h_sum += h;
      hz_sum += h * normal;
    }
    if (gradients.dx().empty()) continue;
    const double h_mean = centred ? h_sum / static_cast<double>(by.size) : 0;
    const double hz_mean = hz_sum / static_cast<double>(by.size);
    for (std::int64_t i = 0; i < by.size; ++i) {
      const auto feature_weight = static_cast<double>(call.parameters[0][by.feature(group, i)]);
      const double h = static_cast<double>(g[at(group, i)]) * feature_weight;
      gradients.dx()[at(group, i)] = static_cast<float>(scale * (h - h_mean - z(i) * hz_mean));
    }
  }
  std::ranges::transform(weight, gradients.parameters[0].begin(), [](double sum) { return static_cast<float>(sum); });
  if (gradients.parameters.size() > 1)
    std::ranges::transform(bias, gradients.parameters[1].begin(), [](double sum) { return static_cast<float>(sum); });
}

void batch_norm_forward(const EigenCall& call) { norm_forward(call, by_channel(call.shape()), true); }
void batch_norm_backward(const EigenCall& call, const EigenGradients& gradients) {
  norm_backward(call, gradients, by_channel(call.shape()), true);
}
void layer_norm_forward(const EigenCall& call) { norm_forward(call, by_row(call.shape()), true); }
void layer_norm_backward(const EigenCall& call, const EigenGradients& gradients) {
  norm_backward(call, gradients, by_row(call.shape()), true);
}
void rms_norm_forward(const EigenCall& call) { norm_forward(call, by_row(call.shape()), false); }
void rms_norm_backward(const EigenCall& call, const EigenGradients& gradients) {
  norm_backward(call, gradients, by_row(call.shape()), false);
}

/// Calls f(place of the first element, distance between elements) for each line along the axis.
template <class F>
void each_line(const AxisView& axis, F f) {
  for (std::int64_t o = 0; o < axis.outer; ++o)
    for (std::int64_t i = 0; i < axis.inner; ++i) f(o * axis.length * axis.inner + i, axis.inner);
}

/// exp(x - largest) / sum along one line; returns log(sum) + largest.
double softmax_line(const float* x, float* y, std::int64_t length, std::int64_t step) {
  float largest = x[0];
  for (std::int64_t i = 1; i < length; ++i) largest = std::max(largest, x[i * step]);
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    y[i * step] = std::exp(x[i * step] - largest);
    sum += static_cast<double>(y[i * step]);
  }
  for (std::int64_t i = 0; i < length; ++i) y[i * step] = static_cast<float>(static_cast<double>(y[i * step]) / sum);
  return std::log(sum) + static_cast<double>(largest);
}

void softmax_forward(const EigenCall& call) {
  const AxisView axis = around(call.shape(), call.op().integer("axis"));
  each_line(axis, [&](auto first, auto step) {
    softmax_line(call.x().data() + first, call.y().data() + first, axis.length, step);
  });
}

/// dx = y (g - sum(g y)).
void softmax_backward(const EigenCall& call, const EigenGradients& gradients) {
  const AxisView axis = around(call.shape(), call.op().integer("axis"));
  each_line(axis, [&](auto first, auto step) {
    const float *y = call.y().data() + first, *g = gradients.g().data() + first;
    double sum = 0;
    for (std::int64_t i = 0; i < axis.length; ++i) sum += static_cast<double>(g[i * step] * y[i * step]);
    for (std::int64_t i = 0; i < axis.length; ++i)
      gradients.dx()[static_cast<std::size_t>(first + i * step)] =
          y[i * step] * (g[i * step] - static_cast<float>(sum));
  });
}

/// Mean of log(sum of exp(logits)) - logit of the label. The probabilities are kept.
void cross_entropy_forward(const EigenCall& call) {
  const AxisView axis = around(call.shape(), call.op().integer("axis"));
  const auto labels = call.inputs[1]->integers();
  require_indices(call.op(), labels, axis.length);
  Floats& probabilities = call.kept.floats.emplace_back(call.x().size());
  double total = 0;
  auto label = labels.begin();
  each_line(axis, [&](auto first, auto step) {
    const float* x = call.x().data() + first;
    total += softmax_line(x, probabilities.data() + first, axis.length, step) - static_cast<double>(x[*label++ * step]);
  });
  call.y()[0] = static_cast<float>(total / static_cast<double>(labels.size()));
}

/// (probability - 1 at the label) / lines.
void cross_entropy_backward(const EigenCall& call, const EigenGradients& gradients) {
  const AxisView axis = around(call.shape(), call.op().integer("axis"));
  const auto labels = call.inputs[1]->integers();
  const float scale = gradients.g()[0] / static_cast<float>(labels.size());
  std::ranges::transform(call.kept.floats[0], gradients.dx().begin(), [=](float p) { return p * scale; });
  auto label = labels.begin();
  each_line(axis,
            [&](auto first, auto step) { gradients.dx()[static_cast<std::size_t>(first + *label++ * step)] -= scale; });
}

}  // namespace

std::span<const EigenRow> eigen_norm_rows() {
  static constexpr EigenRow rows[] = {{OpKind::batch_norm, batch_norm_forward, batch_norm_backward},
                                      {OpKind::layer_norm, layer_norm_forward, layer_norm_backward},
                                      {OpKind::rms_norm, rms_norm_forward, rms_norm_backward},
                                      {OpKind::softmax, softmax_forward, softmax_backward},
                                      {OpKind::cross_entropy, cross_entropy_forward, cross_entropy_backward}};
  return rows;
}

}  // namespace fusion::exec
