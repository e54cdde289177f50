// The torch backend against the same networks written directly in libtorch, as its own tutorials write them: losses and
// gradients equal bit for bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

#include "exec/backend.h"
#include "exec/data.h"
#include "exec/dropout.h"
#include "tests/support/exec_nets.h"

namespace fusion::exec {
namespace {

constexpr std::uint64_t seed = 23;
constexpr int num_micro_batches = 3;

at::Tensor copied(HostTensor& host) {
  const auto dtype = host.dtype == DType::int64 ? at::kLong : at::kFloat;
  return at::from_blob(host.data.data(), host.shape, at::dtype(dtype)).clone();
}

/// A network's parameters by name, as leaves that start from the same bits.
class Plain {
 public:
  Plain(const Graph& graph, const Part& part) : graph_(graph), store_(make_store(graph, part, seed)) {}

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

/// Trains the network by the backend and by `loss_of`, and compares.
template <class LossOf>
void expect_same_bits(const Graph& graph, LossOf loss_of) {
  const Part part = part_of(graph, stages_at(graph, {})[0]);
  ParameterStore store = make_store(graph, part, seed);
  const auto backend = find_backend("torch").make(graph, part, store, {});
  const auto data = open_data("synthetic", graph, seed);
  Plain plain(graph, part);
  for (int m = 0; m < num_micro_batches; ++m) {
    Batch batch = batch_of(*data, graph, seed, 0, m, num_micro_batches);
    const at::Tensor loss = loss_of(plain, copied(batch.input), copied(batch.label), m);
    torch::autograd::backward({loss}, {at::full({}, 1.0 / num_micro_batches)});
    Values inputs;
    for (const TensorId id : part.data) {
      const bool is_label = graph.op(graph.tensor(id).producer).kind == OpKind::label;
      inputs.emplace(id, is_label ? batch.label : batch.input);
    }
    EXPECT_EQ(backend->forward(m, std::move(inputs), {seed, 0}).loss, static_cast<double>(loss.item<float>()));
    backend->backward(m, {}, 1.0 / num_micro_batches);
  }
  backend->fold_gradients();
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const at::Tensor expected = plain.gradient(graph.parameters[i].name).contiguous();
    const auto got = store.gradients[i].floats();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.data_ptr<float>())) << graph.parameters[i].name;
  }
}

TEST(PlainLibtorch, MlpIsTheSameBitForBit) {
  expect_same_bits(small_mlp(), [](Plain& net, at::Tensor x, const at::Tensor& labels, int) {
    for (const std::string i : {"0", "1", "2", "3"}) x = at::relu(net.linear("fc" + i, x));
    return at::cross_entropy_loss(net.linear("head", x), labels);
  });
}

/// The scale is baddbmm's alpha: a product with it afterwards would round gradients in another place.
at::Tensor attention(Plain& net, const std::string& at, const at::Tensor& x, std::int64_t heads) {
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

TEST(PlainLibtorch, Gpt2IsTheSameBitForBit) {
  const Graph graph = tiny_gpt2();
  const auto dropout = [&](const std::string& name, const at::Tensor& x, int micro_batch) {
    const auto found = std::ranges::find(graph.ops, name, &Op::name);
    const OpId op(static_cast<std::size_t>(found - graph.ops.begin()));
    std::vector<float> mask = dropout_mask({seed, 0}, micro_batch, op, 0.1, static_cast<std::size_t>(x.numel()));
    return x * at::from_blob(mask.data(), x.sizes(), at::kFloat).clone();
  };
  expect_same_bits(graph, [&](Plain& net, const at::Tensor& tokens, const at::Tensor& labels, int m) {
    at::Tensor x = at::embedding(net("wte.weight"), tokens);
    x = x + at::embedding(net("wpe.weight"), at::arange(tokens.size(1)).unsqueeze(0));
    x = dropout("drop", x, m);
    for (const std::string h : {"h.0", "h.1"}) {
      at::Tensor branch = attention(net, h + ".attn", net.norm(h + ".ln_1", x), 3);
      x = dropout(h + ".attn.resid_dropout", net.linear(h + ".attn.c_proj", branch), m) + x;
      branch = at::gelu(net.linear(h + ".mlp.c_fc", net.norm(h + ".ln_2", x)), "tanh");
      x = dropout(h + ".mlp.dropout", net.linear(h + ".mlp.c_proj", branch), m) + x;
    }
    const at::Tensor logits = at::linear(net.norm("ln_f", x), net.again("wte.weight"));
    return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), labels.view({-1}));
  });
}

at::Tensor conv_norm(Plain& net, const std::string& at, const at::Tensor& x, std::int64_t stride) {
  const at::Tensor weight = net(at + ".conv.weight");
  const at::Tensor y = at::conv2d(x, weight, {}, stride, weight.size(2) / 2);
  return at::batch_norm(y, net(at + ".bn.weight"), net(at + ".bn.bias"), {}, {}, true, 0.1, 1e-5, true);
}

TEST(PlainLibtorch, ResnetIsTheSameBitForBit) {
  expect_same_bits(small_resnet(), [](Plain& net, at::Tensor x, const at::Tensor& labels, int) {
    x = at::max_pool2d(at::relu(conv_norm(net, "stem", x, 1)), 3, 2, 1);
    for (const std::int64_t stride : {1, 2}) {
      const std::string at = "block" + std::to_string(stride);
      const at::Tensor branch = conv_norm(net, at + ".2", at::relu(conv_norm(net, at + ".1", x, stride)), 1);
      x = at::relu(branch + (stride == 2 ? conv_norm(net, at + ".down", x, stride) : x));
    }
    return at::cross_entropy_loss(net.linear("fc", at::avg_pool2d(x, {x.size(2), x.size(3)}).flatten(1)), labels);
  });
}

}  // namespace
}  // namespace fusion::exec
