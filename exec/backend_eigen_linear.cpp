// Matrix products: linear, conv2d, matmul.
#include <Eigen/Core>

#include "exec/backend_eigen_ops.h"

namespace fusion::exec {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Read = Eigen::Map<const Matrix>;
using Write = Eigen::Map<Matrix>;
using ReadRow = Eigen::Map<const Eigen::RowVectorXf>;
using WriteRow = Eigen::Map<Eigen::RowVectorXf>;

Read rows_of(std::span<const float> values, std::int64_t columns) {
  return {values.data(), static_cast<std::int64_t>(values.size()) / columns, columns};
}
Write rows_of(std::span<float> values, std::int64_t columns) {
  return {values.data(), static_cast<std::int64_t>(values.size()) / columns, columns};
}

// ---- linear: y = x W^T + b

void linear_forward(const EigenCall& call) {
  const std::int64_t in = call.shape().back(), out = call.out_shape().back();
  Write y = rows_of(call.y(), out);
  y.noalias() = rows_of(call.x(), in) * rows_of(call.parameters[0], in).transpose();
  if (call.parameters.size() > 1) y.rowwise() += ReadRow(call.parameters[1].data(), out);
}

/// dx = g W, dW = g^T x, db = the sum of g's rows.
void linear_backward(const EigenCall& call, const EigenGradients& gradients) {
  const std::int64_t in = call.shape().back(), out = call.out_shape().back();
  const Read g = rows_of(gradients.g(), out);
  if (!gradients.dx().empty()) rows_of(gradients.dx(), in).noalias() = g * rows_of(call.parameters[0], in);
  rows_of(gradients.parameters[0], in).noalias() = g.transpose() * rows_of(call.x(), in);
  if (gradients.parameters.size() > 1) WriteRow(gradients.parameters[1].data(), out) = g.colwise().sum();
}

// ---- conv2d: per sample and group a product of the kernels with the picture's windows, laid out as columns

struct Conv {
  std::int64_t samples, height, width, out_channels, out_height, out_width, kernel, stride, padding, groups, wide;
  std::int64_t area() const { return height * width; }
  std::int64_t out_area() const { return out_height * out_width; }
  std::int64_t window() const { return wide * kernel * kernel; }  ///< numbers under a kernel
  std::int64_t out_wide() const { return out_channels / groups; }
};

Conv conv_of(const EigenCall& call) {
  const Shape &in = call.shape(), &out = call.out_shape();
  const Op& op = call.op();
  const std::int64_t groups = op.integer("groups");
  return {in[0],
          in[2],
          in[3],
          out[1],
          out[2],
          out[3],
          op.integer("kernel"),
          op.integer("stride"),
          op.integer("padding"),
          groups,
          in[1] / groups};
}

/// Calls f(row of the columns, column, place in the picture of `wide` channels) for each number under a kernel.
template <class F>
void each_of_windows(const Conv& conv, F f) {
  for (std::int64_t row = 0; row < conv.window(); ++row) {
    const std::int64_t channel = row / (conv.kernel * conv.kernel);
    const std::int64_t r = row / conv.kernel % conv.kernel, c = row % conv.kernel;
    for (std::int64_t i = 0; i < conv.out_height; ++i) {
      const std::int64_t y = i * conv.stride + r - conv.padding;
      if (y < 0 || y >= conv.height) continue;
      for (std::int64_t j = 0; j < conv.out_width; ++j) {
        const std::int64_t x = j * conv.stride + c - conv.padding;
        if (x >= 0 && x < conv.width) f(row, i * conv.out_width + j, (channel * conv.height + y) * conv.width + x);
      }
    }
  }
}

/// [window, out_area] of one group of one sample.
Matrix columns_of(const Conv& conv, const float* picture) {
  Matrix columns = Matrix::Zero(conv.window(), conv.out_area());
  each_of_windows(conv, [&](auto row, auto column, auto place) { columns(row, column) = picture[place]; });
  return columns;
}

void conv2d_forward(const EigenCall& call) {
  const Conv conv = conv_of(call);
  for (std::int64_t b = 0; b < conv.samples; ++b)
    for (std::int64_t group = 0; group < conv.groups; ++group) {
      const std::int64_t place = b * conv.groups + group;
      const Read kernels(call.parameters[0].data() + group * conv.out_wide() * conv.window(), conv.out_wide(),
                         conv.window());
      Write out(call.y().data() + place * conv.out_wide() * conv.out_area(), conv.out_wide(), conv.out_area());
      out.noalias() = kernels * columns_of(conv, call.x().data() + place * conv.wide * conv.area());
    }
  if (call.parameters.size() < 2) return;
  Write y = rows_of(call.y(), conv.out_area());
  for (std::int64_t row = 0; row < y.rows(); ++row)
    y.row(row).array() += call.parameters[1][static_cast<std::size_t>(row % conv.out_channels)];
}

/// dW = g columns^T; the gradient of the columns is W^T g, and adds up where windows overlap.
void conv2d_backward(const EigenCall& call, const EigenGradients& gradients) {
  const Conv conv = conv_of(call);
  for (std::int64_t b = 0; b < conv.samples; ++b)
    for (std::int64_t group = 0; group < conv.groups; ++group) {
      const std::int64_t place = b * conv.groups + group, weights = group * conv.out_wide() * conv.window();
      const Read g(gradients.g().data() + place * conv.out_wide() * conv.out_area(), conv.out_wide(), conv.out_area());
      Write kernels(gradients.parameters[0].data() + weights, conv.out_wide(), conv.window());
      kernels.noalias() += g * columns_of(conv, call.x().data() + place * conv.wide * conv.area()).transpose();
      if (gradients.dx().empty()) continue;
      const Read weight(call.parameters[0].data() + weights, conv.out_wide(), conv.window());
      const Matrix columns = weight.transpose() * g;
      float* picture = gradients.dx().data() + place * conv.wide * conv.area();
      each_of_windows(conv, [&](auto row, auto column, auto at) { picture[at] += columns(row, column); });
    }
  if (gradients.parameters.size() < 2) return;
  const Read g = rows_of(gradients.g(), conv.out_area());
  for (std::int64_t row = 0; row < g.rows(); ++row)
    gradients.parameters[1][static_cast<std::size_t>(row % conv.out_channels)] += g.row(row).sum();
}

// ---- matmul: one product per leading index

struct Product {
  std::int64_t count, rows, inner, columns;
  bool transposed;  ///< b is [columns, inner]
};

Product product_of(const EigenCall& call) {
  const Shape& a = call.shape();
  const std::int64_t rows = a[a.size() - 2], inner = a.back(), columns = call.out_shape().back();
  return {num_elements(a) / (rows * inner), rows, inner, columns, call.op().flag("transpose_b")};
}

void matmul_forward(const EigenCall& call) {
  const Product p = product_of(call);
  for (std::int64_t i = 0; i < p.count; ++i) {
    const Read a(call.x(0).data() + i * p.rows * p.inner, p.rows, p.inner);
    const float* b = call.x(1).data() + i * p.inner * p.columns;
    Write y(call.y().data() + i * p.rows * p.columns, p.rows, p.columns);
    if (p.transposed)
      y.noalias() = a * Read(b, p.columns, p.inner).transpose();
    else
      y.noalias() = a * Read(b, p.inner, p.columns);
  }
}

/// da = g b^T, db = a^T g; with b transposed da = g b, db = g^T a.
void matmul_backward(const EigenCall& call, const EigenGradients& gradients) {
  const Product p = product_of(call);
  const std::int64_t b_rows = p.transposed ? p.columns : p.inner, b_columns = p.transposed ? p.inner : p.columns;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const Read a(call.x(0).data() + i * p.rows * p.inner, p.rows, p.inner);
    const Read b(call.x(1).data() + i * p.inner * p.columns, b_rows, b_columns);
    const Read g(gradients.g().data() + i * p.rows * p.columns, p.rows, p.columns);
    if (!gradients.dx(0).empty()) {
      Write da(gradients.dx(0).data() + i * p.rows * p.inner, p.rows, p.inner);
      p.transposed ? da.noalias() = g * b : da.noalias() = g * b.transpose();
    }
    if (!gradients.dx(1).empty()) {
      Write db(gradients.dx(1).data() + i * p.inner * p.columns, b_rows, b_columns);
      p.transposed ? db.noalias() = g.transpose() * a : db.noalias() = a.transpose() * g;
    }
  }
}

}  // namespace

std::span<const EigenRow> eigen_linear_rows() {
  static constexpr EigenRow rows[] = {{OpKind::linear, linear_forward, linear_backward},
                                      {OpKind::conv2d, conv2d_forward, conv2d_backward},
                                      {OpKind::matmul, matmul_forward, matmul_backward}};
  return rows;
}

}  // namespace fusion::exec
