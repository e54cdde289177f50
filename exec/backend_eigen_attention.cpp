// Attention, one sample and head at a time: its rows lie in [B, T, heads d] with a stride, and are used where they lie.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/backend_eigen_ops.h"
#include "exec/rotary.h"

namespace fusion::exec {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Head = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
using WriteHead = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;

struct Attention {
  std::int64_t samples, tokens, keys, heads, kv_heads, features;  ///< features of one head
  bool causal;
  double rotary_base;
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(features))); }
};

Attention attention_of(const EigenCall& call) {
  const Op& op = call.op();
  const std::int64_t heads = op.integer("heads"), kv = op.integer("kv_heads");
  return {call.shape(0)[0],     call.shape(0)[1],         call.shape(1)[1],  heads,
          kv == 0 ? heads : kv, call.shape(0)[2] / heads, op.flag("causal"), op.real("rotary_base")};
}

/// Head `head` of sample `b` in [B, rows, heads features].
template <class Map, class T>
Map head_of(T* values, std::int64_t b, std::int64_t rows, std::int64_t head, std::int64_t heads,
            std::int64_t features) {
  return {values + b * rows * heads * features + head * features, rows, features,
          Eigen::OuterStride<>(heads * features)};
}

/// Turns the pairs of every head of [B, rows, heads features] by the angles of their rows; back with `sign` -1.
void turn(std::span<float> values, std::int64_t rows, std::int64_t heads, const Attention& at, float sign) {
  const RotaryTable table = rotary_table(rows, at.features, at.rotary_base);
  const std::int64_t half = at.features / 2, width = heads * at.features;
  for (std::size_t row = 0; row < values.size() / static_cast<std::size_t>(width); ++row)
    for (std::int64_t head = 0; head < heads; ++head) {
      float* u = values.data() + static_cast<std::int64_t>(row) * width + head * at.features;
      const std::int64_t angles = static_cast<std::int64_t>(row) % rows * half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float cosine = table.cosine[static_cast<std::size_t>(angles + i)];
        const float sine = sign * table.sine[static_cast<std::size_t>(angles + i)];
        const float a = u[i], b = u[i + half];
        u[i] = a * cosine - b * sine;
        u[i + half] = b * cosine + a * sine;
      }
    }
}

/// softmax(q k^T / sqrt(d)) of one head, keys after their query left out.
void probabilities(const Head& q, const Head& k, const Attention& at, Matrix& p) {
  p.noalias() = at.scale() * q * k.transpose();
  for (std::int64_t t = 0; t < p.rows(); ++t) {
    if (at.causal) p.row(t).tail(p.cols() - t - 1).setConstant(-std::numeric_limits<float>::infinity());
    const float largest = p.row(t).maxCoeff();
    p.row(t) = (p.row(t).array() - largest).exp();
    p.row(t) /= p.row(t).sum();
  }
}

/// Kept: the turned q and k (where positions turn them), and the probabilities of every head [B heads, T, S].
enum Kept { turned_q, turned_k, weights, num_kept };

const float* q_of(const EigenCall& call, const Attention& at) {
  return at.rotary_base > 0 ? call.kept.floats[turned_q].data() : call.x(0).data();
}
const float* k_of(const EigenCall& call, const Attention& at) {
  return at.rotary_base > 0 ? call.kept.floats[turned_k].data() : call.x(1).data();
}

void forward(const EigenCall& call) {
  const Attention at = attention_of(call);
  call.kept.floats.resize(num_kept);
  if (at.rotary_base > 0) {
    call.kept.floats[turned_q].assign(call.x(0).begin(), call.x(0).end());
    call.kept.floats[turned_k].assign(call.x(1).begin(), call.x(1).end());
    turn(call.kept.floats[turned_q], at.tokens, at.heads, at, 1);
    turn(call.kept.floats[turned_k], at.keys, at.kv_heads, at, 1);
  }
  Floats& kept = call.kept.floats[weights];
  kept.resize(static_cast<std::size_t>(at.samples * at.heads * at.tokens * at.keys));
  Matrix p;
  for (std::int64_t b = 0; b < at.samples; ++b)
    for (std::int64_t head = 0; head < at.heads; ++head) {
      const std::int64_t shared = head / (at.heads / at.kv_heads);
      const auto q = head_of<Head>(q_of(call, at), b, at.tokens, head, at.heads, at.features);
      const auto k = head_of<Head>(k_of(call, at), b, at.keys, shared, at.kv_heads, at.features);
      const auto v = head_of<Head>(call.x(2).data(), b, at.keys, shared, at.kv_heads, at.features);
      probabilities(q, k, at, p);
      head_of<WriteHead>(call.y().data(), b, at.tokens, head, at.heads, at.features).noalias() = p * v;
      std::copy_n(p.data(), p.size(), kept.data() + (b * at.heads + head) * p.size());
    }
}

/// Where a gradient is added, or scratch where none is wanted.
struct Targets {
  Floats scratch[3];
  float* of[3];
  Targets(const EigenCall& call, const EigenGradients& gradients) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (gradients.dx(i).empty()) scratch[i].resize(call.x(i).size());
      of[i] = gradients.dx(i).empty() ? scratch[i].data() : gradients.dx(i).data();
    }
  }
};

/// With p the probabilities and g the output's gradient: dv = p^T g, dp = g v^T, ds = p (dp - sum of p dp over the
/// row), dq = ds k / sqrt(d), dk = ds^T q / sqrt(d).
void backward(const EigenCall& call, const EigenGradients& gradients) {
  const Attention at = attention_of(call);
  Targets targets(call, gradients);
  for (std::int64_t b = 0; b < at.samples; ++b)
    for (std::int64_t head = 0; head < at.heads; ++head) {
      const std::int64_t shared = head / (at.heads / at.kv_heads);
      const auto query = [&](auto* values) { return head_of<Head>(values, b, at.tokens, head, at.heads, at.features); };
      const auto key = [&](auto* values) {
        return head_of<Head>(values, b, at.keys, shared, at.kv_heads, at.features);
      };
      const auto key_target = [&](float* values) {
        return head_of<WriteHead>(values, b, at.keys, shared, at.kv_heads, at.features);
      };
      const Eigen::Map<const Matrix> p(call.kept.floats[weights].data() + (b * at.heads + head) * at.tokens * at.keys,
                                       at.tokens, at.keys);
      const auto g = query(gradients.g().data());
      key_target(targets.of[2]).noalias() += p.transpose() * g;
      Matrix ds = g * key(call.x(2).data()).transpose();
      const Eigen::VectorXf sums = ds.cwiseProduct(p).rowwise().sum();
      ds = at.scale() * p.array() * (ds.colwise() - sums).array();
      head_of<WriteHead>(targets.of[0], b, at.tokens, head, at.heads, at.features).noalias() +=
          ds * key(k_of(call, at));
      key_target(targets.of[1]).noalias() += ds.transpose() * query(q_of(call, at));
    }
  if (at.rotary_base == 0) return;
  turn({targets.of[0], call.x(0).size()}, at.tokens, at.heads, at, -1);
  turn({targets.of[1], call.x(1).size()}, at.keys, at.kv_heads, at, -1);
}

}  // namespace

std::span<const EigenRow> eigen_attention_rows() {
  static constexpr EigenRow rows[] = {{OpKind::attention, forward, backward}};
  return rows;
}

}  // namespace fusion::exec
