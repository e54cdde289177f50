#include "exec/backend_torch_ops.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <algorithm>
#include <array>

#include "exec/backend_torch_tensor.h"
#include "exec/dropout.h"
#include "exec/index_range.h"

namespace fusion::exec {
namespace {

using Tensors = std::vector<at::Tensor>;

/// x, with a gradient that is contiguous whatever its reader hands back.
at::Tensor with_contiguous_gradient(const at::Tensor& x) {
  if (!x.requires_grad()) return x;
  const at::Tensor same = x.view(x.sizes());
  if (same.requires_grad()) same.register_hook([](const at::Tensor& gradient) { return gradient.contiguous(); });
  return same;
}

at::Tensor bias_of(const TorchCall& call) { return call.parameters.size() > 1 ? call.parameters[1] : at::Tensor(); }

void check_indices(const Op& op, const at::Tensor& indices, std::int64_t bound) {
  const at::Tensor host = indices.to(at::kCPU).contiguous();
  require_indices(op, {host.data_ptr<std::int64_t>(), static_cast<std::size_t>(host.numel())}, bound);
}

/// [..., in] as [rows, in].
at::Tensor as_rows(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }

Tensors embedding(const TorchCall& call) {
  const at::Tensor& table = call.parameters[0];
  if (call.op.flag("positions")) return {table.narrow(0, 0, call.x().size(1)).unsqueeze(0)};
  check_indices(call.op, call.x(), table.size(0));
  return {at::embedding(table, call.x())};
}

Tensors linear(const TorchCall& call) {
  const at::Tensor rows = as_rows(call.x()), transposed = call.parameters[0].t(), bias = bias_of(call);
  const at::Tensor product = bias.defined() ? at::addmm(bias, rows, transposed) : at::mm(rows, transposed);
  std::vector<std::int64_t> shape = call.x().sizes().vec();
  shape.back() = product.size(1);
  return {product.view(shape)};
}

Tensors conv2d(const TorchCall& call) {
  const Op& op = call.op;
  return {at::conv2d(call.x(), call.parameters[0], bias_of(call), op.integer("stride"), op.integer("padding"),
                     /*dilation=*/1, op.integer("groups"))};
}

/// With the statistics of the micro-batch; there are no running ones.
Tensors batch_norm(const TorchCall& call) {
  return {at::batch_norm(call.x(), call.parameters[0], call.parameters[1], {}, {}, /*training=*/true, /*momentum=*/0,
                         call.op.real("eps"), /*cudnn_enabled=*/true)};
}

Tensors layer_norm(const TorchCall& call) {
  return {at::layer_norm(call.x(), call.x().size(-1), call.parameters[0], call.parameters[1], call.op.real("eps"))};
}

/// x / sqrt(mean(x^2) + eps) weight (Zhang and Sennrich 2019, equation 4).
Tensors rms_norm(const TorchCall& call) {
  const at::Tensor mean_square = at::mean(at::mul(call.x(), call.x()), -1, /*keepdim=*/true);
  return {at::mul(at::mul(call.x(), at::rsqrt(at::add(mean_square, call.op.real("eps")))), call.parameters[0])};
}

Tensors relu(const TorchCall& call) { return {at::relu(call.x())}; }
Tensors silu(const TorchCall& call) { return {at::silu(call.x())}; }
Tensors gelu(const TorchCall& call) { return {at::gelu(call.x(), call.op.flag("tanh") ? "tanh" : "none")}; }
Tensors softmax(const TorchCall& call) { return {at::softmax(call.x(), call.op.integer("axis"))}; }

Tensors matmul(const TorchCall& call) {
  const at::Tensor& b = call.inputs[1];
  return {at::matmul(call.x(), call.op.flag("transpose_b") ? with_contiguous_gradient(b).transpose(-1, -2) : b)};
}

Tensors add(const TorchCall& call) { return {at::add(call.x(), call.inputs[1])}; }
Tensors mul(const TorchCall& call) { return {at::mul(call.x(), call.inputs[1])}; }

Tensors max_pool(const TorchCall& call) {
  const Op& op = call.op;
  const std::int64_t stride = op.integer("stride") == 0 ? op.integer("kernel") : op.integer("stride");
  return {at::max_pool2d(call.x(), op.integer("kernel"), stride, op.integer("padding"))};
}

/// Zeros of the padding count, as in the field's frameworks.
Tensors avg_pool(const TorchCall& call) {
  const Op& op = call.op;
  if (op.integer("kernel") == 0) return {at::avg_pool2d(call.x(), {call.x().size(2), call.x().size(3)})};
  const std::int64_t stride = op.integer("stride") == 0 ? op.integer("kernel") : op.integer("stride");
  return {at::avg_pool2d(call.x(), op.integer("kernel"), stride, op.integer("padding"))};
}

Tensors upsample(const TorchCall& call) {
  const std::int64_t factor = call.op.integer("factor");
  const std::array<std::int64_t, 2> size = {call.x().size(2) * factor, call.x().size(3) * factor};
  return {at::upsample_nearest2d(call.x(), at::IntArrayRef(size))};
}

Tensors reshape(const TorchCall& call) { return {call.x().view(call.op.integers("shape"))}; }

Tensors concat(const TorchCall& call) {
  Tensors parts;
  for (const at::Tensor& input : call.inputs) parts.push_back(with_contiguous_gradient(input));
  return {at::cat(parts, call.op.integer("axis"))};
}

Tensors split(const TorchCall& call) {
  return at::split_with_sizes(call.x(), call.op.integers("sizes"), call.op.integer("axis"));
}

Tensors dropout(const TorchCall& call) {
  const double rate = call.op.real("p");
  if (rate == 0) return {call.x().view(call.x().sizes())};
  const auto elements = static_cast<std::size_t>(call.x().numel());
  return {at::mul(call.x(), take(dropout_mask(call.seed, call.micro_batch, call.id, rate, elements), call.x().sizes(),
                                 call.constants.device()))};
}

Tensors cross_entropy(const TorchCall& call) {
  const std::int64_t axis = call.op.integer("axis");
  check_indices(call.op, call.inputs[1], call.x().size(axis));
  const at::Tensor logits = with_contiguous_gradient(call.x()).movedim(axis, -1);
  return {at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), call.inputs[1].reshape({-1}))};
}

}  // namespace

const TorchRow* find_torch_op(OpKind kind) {
  static constexpr TorchRow rows[] = {{OpKind::embedding, embedding},
                                      {OpKind::linear, linear},
                                      {OpKind::conv2d, conv2d},
                                      {OpKind::batch_norm, batch_norm},
                                      {OpKind::layer_norm, layer_norm},
                                      {.kind = OpKind::rms_norm, .run = rms_norm, .reads_twice = true},
                                      {OpKind::relu, relu},
                                      {OpKind::gelu, gelu},
                                      {OpKind::silu, silu},
                                      {OpKind::softmax, softmax},
                                      {.kind = OpKind::attention, .run = torch_attention, .any_strides = true},
                                      {OpKind::matmul, matmul},
                                      {OpKind::add, add},
                                      {OpKind::mul, mul},
                                      {OpKind::max_pool, max_pool},
                                      {OpKind::avg_pool, avg_pool},
                                      {OpKind::reshape, reshape},
                                      {.kind = OpKind::concat, .run = concat, .any_strides = true},
                                      {.kind = OpKind::split, .run = split, .any_strides = true},
                                      {OpKind::dropout, dropout},
                                      {OpKind::cross_entropy, cross_entropy},
                                      {OpKind::upsample, upsample}};
  const auto* found = std::ranges::find(rows, kind, &TorchRow::kind);
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace fusion::exec
