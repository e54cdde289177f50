// Attention from plain products, so that it is the same in every version of libtorch. `flash` changes what the
// estimator reckons with, not the numbers; here the scores always pass through memory.
#include <ATen/ops/add.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/triu.h>

#include <cmath>
#include <limits>

#include "exec/backend_torch_ops.h"
#include "exec/backend_torch_tensor.h"
#include "exec/rotary.h"

namespace fusion::exec {
namespace {

/// [B, T, heads d] as [B, heads, T, d], contiguous, whatever the strides were.
at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(2, {heads, x.size(2) / heads}).transpose(1, 2).contiguous();
}

/// Turns pair i, features i and i + d/2, by the angle of its position.
at::Tensor turned(const at::Tensor& x, double base, TorchConstants& constants) {
  const std::int64_t half = x.size(3) / 2;
  const auto& [cosine, sine] = constants.rotary(x.size(2), x.size(3), base);
  const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({at::sub(at::mul(a, cosine), at::mul(b, sine)), at::add(at::mul(b, cosine), at::mul(a, sine))}, 3);
}

/// [B, kv_heads, S, d] with each head repeated for the queries that share it, as [B heads, S, d].
at::Tensor repeated(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t shared = heads / x.size(1);
  return x.unsqueeze(2).expand({-1, -1, shared, -1, -1}).reshape({x.size(0) * heads, x.size(2), x.size(3)});
}

/// q k^T / sqrt(d), with minus infinity where a key comes after its query.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, bool causal, TorchConstants& constants) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(2)));
  const at::Tensor transposed = k.transpose(1, 2);
  if (!causal) return at::mul(at::bmm(q, transposed), scale);
  return at::baddbmm(constants.causal_mask(q.size(1)), q, transposed, /*beta=*/1, scale);
}

}  // namespace

const at::Tensor& TorchConstants::causal_mask(std::int64_t tokens) {
  at::Tensor& mask = masks_[tokens];
  if (!mask.defined())
    mask = at::triu(at::full({tokens, tokens}, -std::numeric_limits<double>::infinity(), at::device(device_)), 1);
  return mask;
}

const std::pair<at::Tensor, at::Tensor>& TorchConstants::rotary(std::int64_t tokens, std::int64_t features,
                                                                double base) {
  auto& tensors = rotaries_[{tokens, features, base}];
  if (!tensors.first.defined()) {
    RotaryTable table = rotary_table(tokens, features, base);
    const std::int64_t shape[] = {tokens, features / 2};
    tensors = {take(std::move(table.cosine), shape, device_), take(std::move(table.sine), shape, device_)};
  }
  return tensors;
}

std::vector<at::Tensor> torch_attention(const TorchCall& call) {
  const Op& op = call.op;
  const std::int64_t heads = op.integer("heads"), samples = call.x().size(0), tokens = call.x().size(1);
  const std::int64_t kv_heads = op.integer("kv_heads") == 0 ? heads : op.integer("kv_heads");
  at::Tensor q = by_head(call.inputs[0], heads), k = by_head(call.inputs[1], kv_heads);
  if (const double base = op.real("rotary_base"); base > 0) {
    q = turned(q, base, call.constants);
    k = turned(k, base, call.constants);
  }
  const at::Tensor v = by_head(call.inputs[2], kv_heads);
  const at::Tensor scores =
      scores_of(q.view({samples * heads, tokens, -1}), repeated(k, heads), op.flag("causal"), call.constants);
  const at::Tensor mixed = at::bmm(at::softmax(scores, -1), repeated(v, heads));
  return {mixed.view({samples, heads, tokens, -1}).transpose(1, 2).reshape(call.x().sizes())};
}

}  // namespace fusion::exec
