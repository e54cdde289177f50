// The torch backend against the same networks written directly in libtorch, as its own tutorials write them: losses and
// gradients equal bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/data.h"
#include "exec/dropout.h"
#include "tests/support/exec_nets.h"
#include "tests/support/exec_torch_plain.h"

namespace fusion::exec {
namespace {

constexpr std::uint64_t seed = 23;
constexpr int num_micro_batches = 3;

/// Trains the network by the backend and by `loss_of`, and compares.
template <class LossOf>
void expect_same_bits(const Graph& graph, LossOf loss_of) {
  const Part part = part_of(graph, stages_at(graph, {})[0]);
  ParameterStore store = make_store(graph, part, seed);
  const auto backend = find_backend("torch").make(graph, part, store, {});
  const auto data = open_data("synthetic", graph, seed);
  Plain plain(graph, part, seed);
  for (int m = 0; m < num_micro_batches; ++m) {
    Batch batch = batch_of(*data, graph, seed, m * graph.micro_batch);
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
    for (const char* layer : {"a", "b", "c", "d"}) x = at::relu(net.linear(layer, x));
    return at::cross_entropy_loss(net.linear("out", x), labels);
  });
}

TEST(PlainLibtorch, Gpt2IsTheSameBitForBit) {
  const Graph graph = tiny_gpt2();
  expect_same_bits(graph, [&](Plain& net, const at::Tensor& tokens, const at::Tensor& labels, int micro_batch) {
    return gpt2_loss(net, 2, 2, tokens, labels, [&](const std::string& name, const at::Tensor& x) {
      const auto found = std::ranges::find(graph.ops, name, &Op::name);
      const OpId op(static_cast<std::size_t>(found - graph.ops.begin()));
      std::vector<float> mask = dropout_mask({seed, 0}, micro_batch, op, 0.1, static_cast<std::size_t>(x.numel()));
      return x * at::from_blob(mask.data(), x.sizes(), at::kFloat).clone();
    });
  });
}

TEST(PlainLibtorch, ResnetIsTheSameBitForBit) {
  expect_same_bits(projected_resnet(), [](Plain& net, at::Tensor x, const at::Tensor& labels, int) {
    x = at::max_pool2d(at::relu(conv_norm(net, "conv1", "bn1", x, 1)), 3, 2, 1);
    for (const std::int64_t stride : {1, 2}) x = basic_block(net, "layer" + std::to_string(stride), x, stride);
    return at::cross_entropy_loss(net.linear("fc", at::avg_pool2d(x, {x.size(2), x.size(3)}).flatten(1)), labels);
  });
}

}  // namespace
}  // namespace fusion::exec
