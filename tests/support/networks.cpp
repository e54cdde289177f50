#include "tests/support/networks.h"

namespace fusion::exec {

Graph small_mlp() {
  GraphBuilder net("small mlp", 4);
  auto x = net.input("x", {4, 6});
  for (const char* layer : {"a", "b", "c", "d"}) {
    x = net.linear(layer, x, 8);
    x = net.unary(OpKind::relu, layer + std::string(".relu"), x);
  }
  net.cross_entropy("loss", net.linear("out", x, 5), net.label("label", {4}));
  return std::move(net).finish();
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

Graph tied_net() {
  GraphBuilder net("tied net", 2);
  const auto tokens = net.tokens("tokens", {2, 3});
  auto x = net.embedding("wte", tokens, 7, 4);
  x = net.unary(OpKind::dropout, "drop", x, {{"p", 0.1}});
  x = net.add("block", x, net.unary(OpKind::relu, "relu", net.linear("up", x, 4)));
  const auto logits = net.linear("head", x, 7, false, {{"weight", "wte.weight"}});
  net.cross_entropy("loss", logits, net.label("label", {2, 3}));
  return std::move(net).finish();
}

}  // namespace fusion::exec
