#include "tests/support/naive_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace fusion {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Naive {
  const OpView view;
  const std::vector<Doubles>& inputs;
  const std::vector<Doubles>& parameters;
  std::span<const float> mask;

  const Op& op() const { return view.op; }
  const Doubles& x() const { return inputs[0]; }
  const Shape& shape(std::size_t i = 0) const { return view.inputs[i]->shape; }
  const Shape& out_shape() const { return view.outputs[0]->shape; }
  std::int64_t integer(std::string_view name) const { return op().integer(name); }
  Doubles zeros() const { return Doubles(size(num_elements(out_shape()))); }
};

/// Element (outer, a, inner) of a tensor seen as [outer, length, inner] around `axis`.
struct Axis {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::size_t at(std::int64_t o, std::int64_t a, std::int64_t i) const { return size((o * length + a) * inner + i); }
};
Axis around(const Shape& shape, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t place = axis < 0 ? axis + rank : axis;
  Axis result;
  for (std::int64_t i = 0; i < rank; ++i)
    (i < place ? result.outer : i == place ? result.length : result.inner) *= shape[size(i)];
  return result;
}

template <class F>
Doubles each(const Doubles& x, F f) {
  Doubles y;
  for (const double value : x) y.push_back(f(value));
  return y;
}

Doubles embedding(const Naive& n) {
  const std::int64_t features = n.integer("features");
  Doubles y = n.zeros();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t place = i / size(features);  // with positions the output is [1, T, features]: the place is t
    const std::size_t row = n.op().flag("positions") ? place : static_cast<std::size_t>(n.x()[place]);
    y[i] = n.parameters[0][row * size(features) + i % size(features)];
  }
  return y;
}

Doubles linear(const Naive& n) {
  const std::size_t in = size(n.shape().back()), out = size(n.integer("out_features"));
  Doubles y = n.zeros();
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (n.parameters.size() > 1) y[i] = n.parameters[1][i % out];
    for (std::size_t k = 0; k < in; ++k) y[i] += n.x()[i / out * in + k] * n.parameters[0][i % out * in + k];
  }
  return y;
}

/// Calls f(output, input, row of the kernel, column of the kernel) for each element under each place of a window on
/// [B, C, H, W], one channel at a time: `output` and `input` index pictures of one channel.
template <class F>
void slide_over(const Naive& n, std::int64_t kernel, std::int64_t stride, F f) {
  const std::int64_t h = n.shape()[2], w = n.shape()[3], oh = n.out_shape()[2], ow = n.out_shape()[3];
  const std::int64_t padding = n.integer("padding");
  for (std::int64_t i = 0; i < oh; ++i)
    for (std::int64_t j = 0; j < ow; ++j)
      for (std::int64_t r = 0; r < kernel; ++r)
        for (std::int64_t c = 0; c < kernel; ++c) {
          const std::int64_t y = i * stride + r - padding, x = j * stride + c - padding;
          if (y >= 0 && y < h && x >= 0 && x < w) f(i * ow + j, y * w + x, r, c);
        }
}

Doubles conv2d(const Naive& n) {
  const Shape &in = n.shape(), &out = n.out_shape();
  const std::int64_t kernel = n.integer("kernel"), groups = n.integer("groups");
  const std::int64_t wide = in[1] / groups, area = in[2] * in[3], out_area = out[2] * out[3];
  Doubles y = n.zeros();
  if (n.parameters.size() > 1)
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = n.parameters[1][i / size(out_area) % size(out[1])];
  for (std::int64_t b = 0; b < in[0]; ++b)
    for (std::int64_t o = 0; o < out[1]; ++o)
      for (std::int64_t k = 0; k < wide; ++k) {
        const std::int64_t channel = o / (out[1] / groups) * wide + k;
        slide_over(n, kernel, n.integer("stride"), [&](auto to, auto from, auto r, auto c) {
          y[size((b * out[1] + o) * out_area + to)] +=
              n.x()[size((b * in[1] + channel) * area + from)] *
              n.parameters[0][size(((o * wide + k) * kernel + r) * kernel + c)];
        });
      }
  return y;
}

/// (x - mean) / sqrt(variance + eps) weight + bias over the elements that `group` gives one number.
template <class Group, class Feature>
Doubles normalised(const Naive& n, std::size_t num_groups, Group group, Feature feature, bool centred) {
  Doubles mean(num_groups), variance(num_groups), y = n.zeros();
  const double count = static_cast<double>(y.size()) / static_cast<double>(num_groups);
  if (centred)
    for (std::size_t i = 0; i < y.size(); ++i) mean[group(i)] += n.x()[i] / count;
  for (std::size_t i = 0; i < y.size(); ++i) variance[group(i)] += std::pow(n.x()[i] - mean[group(i)], 2) / count;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double scaled = (n.x()[i] - mean[group(i)]) / std::sqrt(variance[group(i)] + n.op().real("eps"));
    y[i] = scaled * n.parameters[0][feature(i)] + (n.parameters.size() > 1 ? n.parameters[1][feature(i)] : 0);
  }
  return y;
}

Doubles batch_norm(const Naive& n) {
  const std::size_t area = size(n.shape()[2] * n.shape()[3]), channels = size(n.shape()[1]);
  const auto channel = [=](std::size_t i) { return i / area % channels; };
  return normalised(n, channels, channel, channel, true);
}

Doubles row_norm(const Naive& n, bool centred) {
  const std::size_t features = size(n.shape().back());
  return normalised(
      n, n.x().size() / features, [=](std::size_t i) { return i / features; },
      [=](std::size_t i) { return i % features; }, centred);
}

double gelu(double x, bool tanh) {
  if (!tanh) return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
  return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
}

Doubles softmax(const Naive& n) {
  const Axis axis = around(n.shape(), n.integer("axis"));
  Doubles y = each(n.x(), [](double x) { return std::exp(x); });
  for (std::int64_t o = 0; o < axis.outer; ++o)
    for (std::int64_t i = 0; i < axis.inner; ++i) {
      double sum = 0;
      for (std::int64_t a = 0; a < axis.length; ++a) sum += y[axis.at(o, a, i)];
      for (std::int64_t a = 0; a < axis.length; ++a) y[axis.at(o, a, i)] /= sum;
    }
  return y;
}

/// Features of head `head` of token t of sample b, turned by its position (RoFormer, equation 15; pairs i, i + d/2).
Doubles head_of(const Naive& n, std::size_t input, std::int64_t b, std::int64_t t, std::int64_t head, std::int64_t d,
                bool turn) {
  const Shape& shape = n.shape(input);
  Doubles features;
  for (std::int64_t i = 0; i < d; ++i)
    features.push_back(n.inputs[input][size((b * shape[1] + t) * shape[2] + head * d + i)]);
  if (!turn || n.op().real("rotary_base") == 0) return features;
  for (std::int64_t i = 0; i < d / 2; ++i) {
    const double frequency =
        std::pow(n.op().real("rotary_base"), -2.0 * static_cast<double>(i) / static_cast<double>(d));
    const double angle = static_cast<double>(t) * frequency;
    const double u = features[size(i)], v = features[size(i + d / 2)];
    features[size(i)] = u * std::cos(angle) - v * std::sin(angle);
    features[size(i + d / 2)] = v * std::cos(angle) + u * std::sin(angle);
  }
  return features;
}

Doubles attention(const Naive& n) {
  const std::int64_t heads = n.integer("heads"), d = n.shape()[2] / heads, keys = n.shape(1)[1];
  const std::int64_t shared = n.integer("kv_heads") == 0 ? 1 : heads / n.integer("kv_heads");
  Doubles y = n.zeros();
  for (std::int64_t b = 0; b < n.shape()[0]; ++b)
    for (std::int64_t t = 0; t < n.shape()[1]; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Doubles q = head_of(n, 0, b, t, h, d, true);
        Doubles weight;
        double sum = 0;
        for (std::int64_t s = 0; s < keys; ++s) {
          const Doubles k = head_of(n, 1, b, s, h / shared, d, true);
          double score = 0;
          for (std::size_t i = 0; i < q.size(); ++i) score += q[i] * k[i];
          const bool seen = !n.op().flag("causal") || s <= t;
          weight.push_back(seen ? std::exp(score / std::sqrt(static_cast<double>(d))) : 0);
          sum += weight.back();
        }
        for (std::int64_t s = 0; s < keys; ++s) {
          const Doubles v = head_of(n, 2, b, s, h / shared, d, false);
          for (std::int64_t i = 0; i < d; ++i)
            y[size((b * n.shape()[1] + t) * n.shape()[2] + h * d + i)] += weight[size(s)] / sum * v[size(i)];
        }
      }
  return y;
}

Doubles matmul(const Naive& n) {
  const auto rank = n.shape().size();
  const std::int64_t rows = n.shape()[rank - 2], inner = n.shape()[rank - 1], columns = n.out_shape()[rank - 1];
  Doubles y = n.zeros();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i)
    for (std::int64_t k = 0; k < inner; ++k) {
      const std::int64_t matrix = i / (rows * columns), column = i % columns;
      const std::int64_t b = n.op().flag("transpose_b") ? column * inner + k : k * columns + column;
      y[size(i)] += n.x()[size(i / columns * inner + k)] * n.inputs[1][size(matrix * inner * columns + b)];
    }
  return y;
}

/// Place in the second input of element i of the first, where the second is 1 wide in some dimensions.
std::size_t place_in_second(const Naive& n, std::size_t i) {
  std::size_t place = 0, step = 1;
  for (std::size_t axis = n.shape().size(); axis-- > 0;) {
    const std::size_t length = size(n.shape()[axis]);
    if (n.shape(1)[axis] != 1) place += i % length * step;
    step *= size(n.shape(1)[axis]);
    i /= length;
  }
  return place;
}

template <class F>
Doubles binary(const Naive& n, F f) {
  Doubles y = n.zeros();
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(n.x()[i], n.inputs[1][place_in_second(n, i)]);
  return y;
}

template <class F>
Doubles pool(const Naive& n, std::int64_t kernel, double start, F f) {
  const std::int64_t stride = n.integer("stride") == 0 ? kernel : n.integer("stride");
  const std::size_t area = size(n.shape()[2] * n.shape()[3]), out_area = size(n.out_shape()[2] * n.out_shape()[3]);
  Doubles y(n.zeros().size(), start);
  for (std::size_t picture = 0; picture < y.size() / out_area; ++picture)
    slide_over(n, kernel, stride, [&](auto to, auto from, auto, auto) {
      double& value = y[picture * out_area + size(to)];
      value = f(value, n.x()[picture * area + size(from)]);
    });
  return y;
}

Doubles max_pool(const Naive& n) {
  return pool(n, n.integer("kernel"), -std::numeric_limits<double>::infinity(),
              [](double a, double b) { return std::max(a, b); });
}

Doubles avg_pool(const Naive& n) {
  if (const std::int64_t kernel = n.integer("kernel"); kernel > 0)
    return pool(n, kernel, 0, [&](double a, double b) { return a + b / static_cast<double>(kernel * kernel); });
  const std::size_t area = size(n.shape()[2] * n.shape()[3]);
  Doubles y = n.zeros();
  for (std::size_t i = 0; i < n.x().size(); ++i) y[i / area] += n.x()[i] / static_cast<double>(area);
  return y;
}

Doubles concat(const Naive& n) {
  const Axis whole = around(n.out_shape(), n.integer("axis"));
  Doubles y;
  for (std::int64_t o = 0; o < whole.outer; ++o)
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const std::size_t length = n.inputs[i].size() / size(whole.outer);
      for (std::size_t k = 0; k < length; ++k) y.push_back(n.inputs[i][size(o) * length + k]);
    }
  return y;
}

std::vector<Doubles> split(const Naive& n) {
  const Axis whole = around(n.shape(), n.integer("axis"));
  std::vector<Doubles> parts;
  std::int64_t start = 0;
  for (const std::int64_t length : n.op().integers("sizes")) {
    Doubles& part = parts.emplace_back();
    for (std::int64_t o = 0; o < whole.outer; ++o)
      for (std::int64_t a = start; a < start + length; ++a)
        for (std::int64_t i = 0; i < whole.inner; ++i) part.push_back(n.x()[whole.at(o, a, i)]);
    start += length;
  }
  return parts;
}

Doubles dropout(const Naive& n) {
  Doubles y = n.x();
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= static_cast<double>(n.mask[i]);
  return y;
}

/// Mean of log(sum of exp(logits)) - logit of the label.
Doubles cross_entropy(const Naive& n) {
  const Axis axis = around(n.shape(), n.integer("axis"));
  double total = 0;
  for (std::int64_t o = 0; o < axis.outer; ++o)
    for (std::int64_t i = 0; i < axis.inner; ++i) {
      double sum = 0;
      for (std::int64_t a = 0; a < axis.length; ++a) sum += std::exp(n.x()[axis.at(o, a, i)]);
      const auto label = static_cast<std::int64_t>(n.inputs[1][size(o * axis.inner + i)]);
      total += std::log(sum) - n.x()[axis.at(o, label, i)];
    }
  return {total / static_cast<double>(axis.outer * axis.inner)};
}

Doubles upsample(const Naive& n) {
  const std::int64_t factor = n.integer("factor"), w = n.shape()[3], ow = n.out_shape()[3], oh = n.out_shape()[2];
  Doubles y = n.zeros();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i) {
    const std::int64_t picture = i / (oh * ow), row = i / ow % oh, column = i % ow;
    y[size(i)] = n.x()[size((picture * (oh / factor) + row / factor) * w + column / factor)];
  }
  return y;
}

}  // namespace

std::vector<Doubles> naive_forward(const Graph& graph, OpId id, const std::vector<Doubles>& inputs,
                                   const std::vector<Doubles>& parameters, std::span<const float> mask) {
  const Naive n{view_of(graph, id), inputs, parameters, mask};
  switch (n.op().kind) {
    case OpKind::embedding:
      return {embedding(n)};
    case OpKind::linear:
      return {linear(n)};
    case OpKind::conv2d:
      return {conv2d(n)};
    case OpKind::batch_norm:
      return {batch_norm(n)};
    case OpKind::layer_norm:
      return {row_norm(n, true)};
    case OpKind::rms_norm:
      return {row_norm(n, false)};
    case OpKind::relu:
      return {each(n.x(), [](double x) { return std::max(x, 0.0); })};
    case OpKind::gelu:
      return {each(n.x(), [&](double x) { return gelu(x, n.op().flag("tanh")); })};
    case OpKind::silu:
      return {each(n.x(), [](double x) { return x / (1 + std::exp(-x)); })};
    case OpKind::softmax:
      return {softmax(n)};
    case OpKind::attention:
      return {attention(n)};
    case OpKind::matmul:
      return {matmul(n)};
    case OpKind::add:
      return {binary(n, [](double a, double b) { return a + b; })};
    case OpKind::mul:
      return {binary(n, [](double a, double b) { return a * b; })};
    case OpKind::max_pool:
      return {max_pool(n)};
    case OpKind::avg_pool:
      return {avg_pool(n)};
    case OpKind::reshape:
      return {n.x()};
    case OpKind::concat:
      return {concat(n)};
    case OpKind::split:
      return split(n);
    case OpKind::dropout:
      return {dropout(n)};
    case OpKind::cross_entropy:
      return {cross_entropy(n)};
    case OpKind::upsample:
      return {upsample(n)};
    case OpKind::input:
    case OpKind::label:
      break;
  }
  throw std::logic_error("an op that computes nothing");
}

}  // namespace fusion
