// PowerSGD (Vogels et al. 2019, arXiv 1905.13727, algorithm 1): M of m x c, the first dimension against the others, as
// P Q^T of rank r. One step of the power method from the last step's Q, so that the subspace follows the gradient.
//
// Payload: P, m x r, then Q, c x r, both fp32 and row by row. Rank 4 of 1024 x 1024 is 8,192 numbers in place of
// 1,048,576: 128 times fewer. Where the factors would be no smaller than the tensor, and for vectors: fp32 as it is.
//
// C(x) is a projection of M on the columns of P, so it never increases the norm of the error beyond ||x||.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "core/compress/codec_rows.h"

namespace fusion::compress::rows {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Matrix>;

struct Factors {
  Eigen::Index rows = 0, columns = 0, rank = 0;
  bool worth() const { return rank > 0 && (rows + columns) * rank < rows * columns; }
};

Factors factors_of(const Shape& shape, Eigen::Index rank) {
  if (shape.size() < 2 || elements_of(shape) == 0) return {};
  const Eigen::Index rows = shape.front(), columns = static_cast<Eigen::Index>(elements_of(shape)) / rows;
  return {rows, columns, std::min({rank, rows, columns})};
}

/// Gram-Schmidt, twice for the sake of fp32. Columns that vanish are zero, not noise.
void orthonormalise(Matrix& p) {
  const float floor = 1e-6f * p.norm();
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    for (int pass = 0; pass < 2; ++pass)
      for (Eigen::Index i = 0; i < j; ++i) p.col(j) -= p.col(i).dot(p.col(j)) * p.col(i);
    const float length = p.col(j).norm();
    if (length > floor) {
      p.col(j) /= length;
    } else {
      p.col(j).setZero();
    }
  }
}

Matrix start(const Factors& f, const MethodOptions& options, const TensorState& state) {
  if (!state.reference.empty()) return View(state.reference.data(), f.columns, f.rank);
  const PositionalRandom random(options.seed, 0);
  Matrix q(f.columns, f.rank);
  for (Eigen::Index i = 0; i < q.size(); ++i) q.data()[i] = random.uniform(static_cast<std::uint64_t>(i)) - 0.5f;
  return q;
}

void encode_low_rank(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace&, Out out,
                     std::span<float> decoded) {
  check(options.rank >= 1, "a rank is 1 or more");
  const Factors f = factors_of(state.shape, options.rank);
  append(out, static_cast<std::uint32_t>(f.worth() ? f.rank : 0));
  if (!f.worth()) {
    append(out, x);
    std::copy(x.begin(), x.end(), decoded.begin());
    return;
  }
  // Power-of-two scaling keeps squares within fp32, and costs no bit.
  float most = 0;
  for (const float v : x) most = std::max(most, std::abs(v));
  int exponent = 0;
  std::frexp(most, &exponent);
  const Matrix m = View(x.data(), f.rows, f.columns) * std::ldexp(1.0f, std::clamp(-exponent, -126, 126));
  Matrix p = m * start(f, options, state);
  orthonormalise(p);
  const Matrix q = (m.transpose() * p) * std::ldexp(1.0f, std::clamp(exponent, -126, 126));
  append(out, std::span<const float>(p.data(), static_cast<std::size_t>(p.size())));
  append(out, std::span<const float>(q.data(), static_cast<std::size_t>(q.size())));
  if (q.squaredNorm() > 0) state.reference.assign(q.data(), q.data() + q.size());
  Eigen::Map<Matrix>(decoded.data(), f.rows, f.columns).noalias() = p * q.transpose();
}

void decode_low_rank(std::span<const std::byte> payload, std::uint64_t, TensorState& state, CodecWorkspace&,
                     std::span<float> out) {
  PayloadReader in(payload);
  const auto rank = static_cast<Eigen::Index>(in.one<std::uint32_t>());
  const Factors f = factors_of(state.shape, rank);
  if (rank == 0) {
    in.fill(out);
    return in.finish();
  }
  if (!f.worth() || f.rank != rank) throw RuntimeFault("coded tensor: no such rank for its shape");
  Matrix p(f.rows, rank), q(f.columns, rank);
  in.fill(std::span<float>(p.data(), static_cast<std::size_t>(p.size())));
  in.fill(std::span<float>(q.data(), static_cast<std::size_t>(q.size())));
  in.finish();
  Eigen::Map<Matrix>(out.data(), f.rows, f.columns).noalias() = p * q.transpose();
}

WireSize low_rank_size(const Shape& shape, const MethodOptions& options) {
  const Factors f = factors_of(shape, options.rank);
  const auto factors = static_cast<std::uint64_t>((f.rows + f.columns) * f.rank);
  return exactly(4 + 4 * (f.worth() ? factors : elements_of(shape)));
}

double one(const Shape&, const MethodOptions&) { return 1 + 1e-5; }

}  // namespace

const MethodRow power_sgd{
    .method = Method::power_sgd,
    .name = "powersgd",
    .help = "two thin factors, by a warm power step (arXiv 1905.13727)",
    .guarantee = Guarantee::contraction,
    .constant = one,
    .feedback = true,
    .reference = false,
    .payload_size = low_rank_size,
    .passes = {35, 3.7},
    .encode = encode_low_rank,
    .decode = decode_low_rank,
};

}  // namespace fusion::compress::rows
