#include "tests/support/networks.h"

namespace fusion::exec {

Graph small_mlp(std::int64_t micro_batch) {
  GraphBuilder net("small mlp", micro_batch);
  auto x = net.input("x", {micro_batch, 6});
  for (const char* layer : {"a", "b", "c", "d"}) {
    x = net.linear(layer, x, 8);
    x = net.unary(OpKind::relu, layer + std::string(".relu"), x);
  }
  net.cross_entropy("loss", net.linear("out", x, 5), net.label("label", {micro_batch}));
  return std::move(net).finish();
}

Graph plain_branching_net(std::int64_t micro_batch) {
  GraphBuilder net("plain branching net", micro_batch);
  const auto stem = net.linear("stem", net.input("x", {micro_batch, 6}), 8);
  const auto a = net.unary(OpKind::gelu, "a.gelu", net.linear("a", stem, 8));
  const auto joined = net.add("join", a, stem);
  const auto gate = net.unary(OpKind::silu, "gate.silu", net.linear("gate", joined, 8));
  const auto product = net.mul("product", gate, net.linear("up", joined, 8));
  net.cross_entropy("loss", net.linear("out", net.add("residual", product, joined), 5),
                    net.label("label", {micro_batch}));
  return std::move(net).finish();
}

Graph small_resnet() {
  GraphBuilder net("small resnet", 2);
  auto x = net.input("image", {2, 3, 8, 8});
  const auto layer = [&](const std::string& name, TensorId in, std::int64_t stride) {
    return net.unary(OpKind::batch_norm, name + ".bn", net.conv2d(name + ".conv", in, 6, 3, stride, 1));
  };
  x = net.unary(OpKind::relu, "stem.relu", layer("stem", x, 1));
  const auto inner = net.unary(OpKind::relu, "block.relu1", layer("block.1", x, 1));
  x = net.unary(OpKind::relu, "block.relu2", net.add("block.add", layer("block.2", inner, 1), x));
  x = net.unary(OpKind::relu, "down.relu", layer("down", x, 2));
  x = net.unary(OpKind::avg_pool, "pool", x);
  x = net.unary(OpKind::reshape, "flat", x, {{"shape", Shape{2, 6}}});
  net.cross_entropy("loss", net.linear("fc", x, 5), net.label("label", {2}));
  return std::move(net).finish();
}

Graph tiny_gpt2(std::int64_t micro_batch, double dropout) {
  const Gpt2 model{.vocabulary = 17,
                   .positions = 8,
                   .features = 16,
                   .layers = 2,
                   .heads = 2,
                   .activation_attributes = {{"tanh", true}},
                   .embedding_dropout = dropout,
                   .residual_dropout = dropout};
  ModelOptions options;
  options.micro_batch = micro_batch;
  return build_gpt2("tiny gpt2", model, options, "tiny gpt2");
}

Graph branching_net() {
  GraphBuilder net("branching net", 4);
  const auto label = net.label("label", {4});
  const auto x = net.input("x", {4, 6});
  const auto stem = net.linear("stem", x, 8);
  auto a = net.unary(OpKind::relu, "a.relu", net.linear("a", stem, 8));
  a = net.unary(OpKind::dropout, "a.dropout", a, {{"p", 0.25}});
  const auto b = net.linear("b", stem, 8, false);
  const auto joined = net.add("join", a, b);
  const auto c = net.unary(OpKind::relu, "c.relu", net.linear("c", joined, 8));
  const auto residual = net.add("residual", net.add("again", c, joined), stem);
  net.cross_entropy("loss", net.linear("out", residual, 5), label);
  return std::move(net).finish();
}

Graph tied_net(std::int64_t micro_batch) {
  GraphBuilder net("tied net", micro_batch);
  const auto tokens = net.tokens("tokens", {micro_batch, 3});
  auto x = net.embedding("wte", tokens, 7, 4);
  x = net.unary(OpKind::dropout, "drop", x, {{"p", 0.1}});
  x = net.add("block", x, net.unary(OpKind::relu, "relu", net.linear("up", x, 4)));
  const auto logits = net.linear("head", x, 7, false, {{"weight", "wte.weight"}});
  net.cross_entropy("loss", logits, net.label("label", {micro_batch, 3}));
  return std::move(net).finish();
}

}  // namespace fusion::exec
