// Networks written directly in libtorch, as its own tutorials write them: what the torch backend is compared with.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "exec/backend.h"

namespace fusion::exec {

inline at::Tensor copied(HostTensor& host) {
  const auto dtype = host.dtype == DType::int64 ? at::kLong : at::kFloat;
  return at::from_blob(host.data.data(), host.shape, at::dtype(dtype)).clone();
}

/// A network's parameters by name, as leaves that start from the same bits.
class Plain {
 public:
  Plain(const Graph& graph, const Part& part, std::uint64_t seed)
      : graph_(graph), store_(make_store(graph, part, seed)) {}

  at::Tensor operator()(const std::string& name) {
    at::Tensor& leaf = leaves_[name];
    if (!leaf.defined()) leaf = copied(store_.values[index_of(name)]).requires_grad_();
    return leaf;
  }
  /// A leaf of its own for another use of a tied parameter.
  at::Tensor again(const std::string& name) {
    at::Tensor& leaf = second_uses_[name];
    if (!leaf.defined()) leaf = copied(store_.values[index_of(name)]).requires_grad_();
    return leaf;
  }
  at::Tensor linear(const std::string& at, const at::Tensor& x) {
    return at::linear(x, (*this)(at + ".weight"), (*this)(at + ".bias"));
  }
  at::Tensor norm(const std::string& at, const at::Tensor& x) {
    return at::layer_norm(x, {x.size(-1)}, (*this)(at + ".weight"), (*this)(at + ".bias"));
  }

  at::Tensor gradient(const std::string& name) {
    const at::Tensor first = (*this)(name).grad();
    return second_uses_.contains(name) ? first + again(name).grad() : first;
  }

 private:
  std::size_t index_of(const std::string& name) const {
    return static_cast<std::size_t>(std::ranges::find(graph_.parameters, name, &Parameter::name) -
                                    graph_.parameters.begin());
  }
  const Graph& graph_;
  ParameterStore store_;
  std::map<std::string, at::Tensor> leaves_, second_uses_;
};

/// The scale is baddbmm's alpha: a product with it afterwards would round gradients in another place.
inline at::Tensor attention(Plain& net, const std::string& at, const at::Tensor& x, std::int64_t heads) {
  const std::int64_t b = x.size(0), t = x.size(1), c = x.size(2), d = c / heads;
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({b, t, heads, d}).transpose(1, 2).reshape({b * heads, t, d});
  };
  const auto parts = net.linear(at + ".c_attn", x).split(c, 2);
  const at::Tensor mask = at::full({t, t}, -std::numeric_limits<double>::infinity()).triu(1);
  const at::Tensor scores =
      at::baddbmm(mask, by_head(parts[0]), by_head(parts[1]).transpose(1, 2), 1, 1 / std::sqrt(static_cast<double>(d)));
  const at::Tensor mixed = at::bmm(at::softmax(scores, -1), by_head(parts[2]));
  return mixed.view({b, heads, t, d}).transpose(1, 2).reshape({b, t, c});
}

/// `dropout(name of the op, x)` is what the network drops out with.
template <class Dropout>
at::Tensor gpt2_loss(Plain& net, int layers, std::int64_t heads, const at::Tensor& tokens, const at::Tensor& labels,
                     Dropout dropout) {
  at::Tensor x = at::embedding(net("wte.weight"), tokens);
  x = x + at::embedding(net("wpe.weight"), at::arange(tokens.size(1)).unsqueeze(0));
  x = dropout("drop", x);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string h = "h." + std::to_string(layer);
    at::Tensor branch = attention(net, h + ".attn", net.norm(h + ".ln_1", x), heads);
    x = dropout(h + ".attn.resid_dropout", net.linear(h + ".attn.c_proj", branch)) + x;
    branch = at::gelu(net.linear(h + ".mlp.c_fc", net.norm(h + ".ln_2", x)), "tanh");
    x = dropout(h + ".mlp.dropout", net.linear(h + ".mlp.c_proj", branch)) + x;
  }
  const at::Tensor logits = at::linear(net.norm("ln_f", x), net.again("wte.weight"));
  return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), labels.view({-1}));
}

inline at::Tensor conv_norm(Plain& net, const std::string& conv, const std::string& norm, const at::Tensor& x,
                            std::int64_t stride) {
  const at::Tensor weight = net(conv + ".weight");
  const at::Tensor y = at::conv2d(x, weight, {}, stride, weight.size(2) / 2);
  return at::batch_norm(y, net(norm + ".weight"), net(norm + ".bias"), {}, {}, true, 0.1, 1e-5, true);
}

/// The basic block of ResNet: relu(norm(conv(relu(norm(conv(x))))) + x), with a projection where the shape changes.
inline at::Tensor basic_block(Plain& net, const std::string& at, const at::Tensor& x, std::int64_t stride) {
  const at::Tensor inner = at::relu(conv_norm(net, at + ".conv1", at + ".bn1", x, stride));
  const at::Tensor branch = conv_norm(net, at + ".conv2", at + ".bn2", inner, 1);
  const bool same = x.sizes() == branch.sizes();
  return at::relu(branch + (same ? x : conv_norm(net, at + ".downsample.0", at + ".downsample.1", x, stride)));
}

}  // namespace fusion::exec
