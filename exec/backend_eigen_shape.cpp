// What moves elements about: embedding, max_pool, avg_pool, reshape, concat, split, upsample.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/backend_eigen_ops.h"
#include "exec/index_range.h"

namespace fusion::exec {
namespace {

/// Calls f(place in the output, place in the table) for each row that is looked up.
template <class F>
void each_row(const EigenCall& call, F f) {
  const std::int64_t features = call.op().integer("features");
  if (call.op().flag("positions")) {
    for (std::int64_t t = 0; t < call.shape()[1]; ++t) f(t * features, t * features);
    return;
  }
  std::int64_t place = 0;
  for (const std::int64_t token : call.inputs[0]->integers()) f(features * place++, token * features);
}

void embedding_forward(const EigenCall& call) {
  if (!call.op().flag("positions")) require_indices(call.op(), call.inputs[0]->integers(), call.op().integer("rows"));
  each_row(call, [&](auto to, auto from) {
    std::copy_n(call.parameters[0].data() + from, call.op().integer("features"), call.y().data() + to);
  });
}
void embedding_backward(const EigenCall& call, const EigenGradients& gradients) {
  each_row(call, [&](auto from, auto to) {
    const float* g = gradients.g().data() + from;
    float* row = gradients.parameters[0].data() + to;
    for (std::int64_t i = 0; i < call.op().integer("features"); ++i) row[i] += g[i];
  });
}

/// A window that slides over the pictures of single channels.
struct Pool {
  std::int64_t pictures, height, width, out_height, out_width, kernel_height, kernel_width, stride_y, stride_x, padding;
};
Pool pool_of(const EigenCall& call) {
  const Shape &in = call.shape(), &out = call.out_shape();
  const std::int64_t kernel = call.op().integer("kernel"), stride = call.op().integer("stride");
  const std::int64_t high = kernel == 0 ? in[2] : kernel, wide = kernel == 0 ? in[3] : kernel;  // 0: the whole picture
  return {in[0] * in[1],
          in[2],
          in[3],
          out[2],
          out[3],
          high,
          wide,
          stride == 0 ? high : stride,
          stride == 0 ? wide : stride,
          call.op().integer("padding")};
}

/// Calls f(place in the output, place in the input) for every element under every window.
template <class F>
void each_of_windows(const Pool& pool, F f) {
  std::int64_t out = 0;
  for (std::int64_t picture = 0; picture < pool.pictures; ++picture)
    for (std::int64_t i = 0; i < pool.out_height; ++i)
      for (std::int64_t j = 0; j < pool.out_width; ++j, ++out) {
        const std::int64_t top = i * pool.stride_y - pool.padding, left = j * pool.stride_x - pool.padding;
        const std::int64_t bottom = std::min(top + pool.kernel_height, pool.height);
        const std::int64_t right = std::min(left + pool.kernel_width, pool.width);
        for (std::int64_t y = std::max<std::int64_t>(top, 0); y < bottom; ++y)
          for (std::int64_t x = std::max<std::int64_t>(left, 0); x < right; ++x)
            f(static_cast<std::size_t>(out), static_cast<std::size_t>((picture * pool.height + y) * pool.width + x));
      }
}

/// The first of equal ones; a number that is not one wins, and is seen.
void max_pool_forward(const EigenCall& call) {
  std::ranges::fill(call.y(), -std::numeric_limits<float>::infinity());
  call.kept.places.resize(call.y().size());
  each_of_windows(pool_of(call), [&, x = call.x(), y = call.y()](auto out, auto in) {
    if (!(x[in] > y[out]) && !std::isnan(x[in])) return;
    y[out] = x[in];
    call.kept.places[out] = static_cast<std::int64_t>(in);
  });
}
void max_pool_backward(const EigenCall& call, const EigenGradients& gradients) {
  for (std::size_t i = 0; i < gradients.g().size(); ++i)
    gradients.dx()[static_cast<std::size_t>(call.kept.places[i])] += gradients.g()[i];
}

float window_size(const Pool& pool) { return static_cast<float>(pool.kernel_height * pool.kernel_width); }

/// Zeros of the padding count.
void avg_pool_forward(const EigenCall& call) {
  const Pool pool = pool_of(call);
  each_of_windows(pool, [x = call.x(), y = call.y()](auto out, auto in) { y[out] += x[in]; });
  for (float& value : call.y()) value /= window_size(pool);
}
void avg_pool_backward(const EigenCall& call, const EigenGradients& gradients) {
  const Pool pool = pool_of(call);
  each_of_windows(
      pool, [&, g = gradients.g(), dx = gradients.dx()](auto out, auto in) { dx[in] += g[out] / window_size(pool); });
}

void reshape_forward(const EigenCall& call) { call.outputs[0]->data = call.inputs[0]->data; }
void reshape_backward(const EigenCall&, const EigenGradients& gradients) {
  std::ranges::copy(gradients.g(), gradients.dx().begin());
}

/// Calls f(part, byte or element offset in the part, offset in the whole, count) for each run of a cut along an axis,
/// in units of one element.
template <class F>
void each_run(const Shape& whole_shape, const std::vector<const HostTensor*>& parts, std::int64_t axis, F f) {
  const AxisView whole = around(whole_shape, axis);
  std::int64_t start = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::int64_t run = around(parts[part]->shape, axis).length * whole.inner;
    for (std::int64_t o = 0; o < whole.outer; ++o) f(part, o * run, o * whole.length * whole.inner + start, run);
    start += run;
  }
}

void concat_forward(const EigenCall& call) {
  const std::int64_t size = size_of(call.outputs[0]->dtype);  // token ids can be joined too
  each_run(call.out_shape(), call.inputs, call.op().integer("axis"), [&](auto part, auto from, auto to, auto count) {
    std::copy_n(call.inputs[part]->data.data() + from * size, count * size, call.outputs[0]->data.data() + to * size);
  });
}
void concat_backward(const EigenCall& call, const EigenGradients& gradients) {
  each_run(call.out_shape(), call.inputs, call.op().integer("axis"), [&](auto part, auto to, auto from, auto count) {
    if (!gradients.dx(part).empty()) std::copy_n(gradients.g().data() + from, count, gradients.dx(part).data() + to);
  });
}

std::vector<const HostTensor*> outputs_of(const EigenCall& call) { return {call.outputs.begin(), call.outputs.end()}; }

void split_forward(const EigenCall& call) {
  const std::int64_t size = size_of(call.inputs[0]->dtype);
  each_run(call.shape(), outputs_of(call), call.op().integer("axis"), [&](auto part, auto to, auto from, auto count) {
    std::copy_n(call.inputs[0]->data.data() + from * size, count * size, call.outputs[part]->data.data() + to * size);
  });
}
void split_backward(const EigenCall& call, const EigenGradients& gradients) {
  each_run(call.shape(), outputs_of(call), call.op().integer("axis"), [&](auto part, auto from, auto to, auto count) {
    std::copy_n(gradients.g(part).data() + from, count, gradients.dx().data() + to);
  });
}

/// Calls f(place in the output, place in the input).
template <class F>
void each_copy(const EigenCall& call, F f) {
  const std::int64_t factor = call.op().integer("factor"), width = call.out_shape()[3];
  const std::int64_t rows = num_elements(call.out_shape()) / width;
  for (std::int64_t row = 0; row < rows; ++row)  // rows of all pictures: each picture has a multiple of the factor
    for (std::int64_t x = 0; x < width; ++x)
      f(static_cast<std::size_t>(row * width + x),
        static_cast<std::size_t>(row / factor * (width / factor) + x / factor));
}

void upsample_forward(const EigenCall& call) {
  each_copy(call, [x = call.x(), y = call.y()](auto out, auto in) { y[out] = x[in]; });
}
void upsample_backward(const EigenCall& call, const EigenGradients& gradients) {
  each_copy(call, [g = gradients.g(), dx = gradients.dx()](auto out, auto in) { dx[in] += g[out]; });
}

}  // namespace

std::span<const EigenRow> eigen_shape_rows() {
  static constexpr EigenRow rows[] = {{OpKind::embedding, embedding_forward, embedding_backward},
                                      {OpKind::max_pool, max_pool_forward, max_pool_backward},
                                      {OpKind::avg_pool, avg_pool_forward, avg_pool_backward},
                                      {OpKind::reshape, reshape_forward, reshape_backward},
                                      {OpKind::concat, concat_forward, concat_backward},
                                      {OpKind::split, split_forward, split_backward},
                                      {OpKind::upsample, upsample_forward, upsample_backward}};
  return rows;
}

}  // namespace fusion::exec
