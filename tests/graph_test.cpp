// Graph and GraphBuilder: what a finished graph guarantees, and what is refused.
#include "core/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "core/base/error.h"
#include "core/graph/builder.h"

namespace fusion {
namespace {

using testing::HasSubstr;

std::string refusal(GraphBuilder net) {
  try {
    std::move(net).finish();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Golden, G20_EmptyGraphIsRefused) {
  EXPECT_EQ(refusal(GraphBuilder("nothing")), "nothing: the graph is empty: it has no ops");
  GraphBuilder inputs_only("inputs");
  inputs_only.input("x", {1, 4});
  EXPECT_THAT(refusal(inputs_only), HasSubstr("nothing to train"));
}

TEST(Graph, TensorsThatNobodyReadsAreRefused) {
  GraphBuilder net("net");
  const auto x = net.input("x", {1, 4});
  net.linear("lost", x, 4);
  net.linear("read", x, 4);
  EXPECT_THAT(refusal(net), HasSubstr("net: lost: nobody reads tensor \"lost\""));
}

TEST(Graph, AnAuxiliaryLossMayEndInNothing) {
  GraphBuilder net("net");
  const auto x = net.linear("fc", net.input("x", {1, 4}), 4);
  const auto y = net.label("y", {1});
  net.cross_entropy("early", x, y);
  net.cross_entropy("loss", net.linear("head", x, 4), y);
  EXPECT_EQ(refusal(net), "accepted");
}

TEST(Graph, MicroBatchBelowOneIsRefused) {
  for (const std::int64_t b : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 50})
    EXPECT_THROW(GraphBuilder("net", b), InputError) << b;
}

TEST(Graph, ShapesOfNoDimensionAreScalars) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({2, 3, 4}), 24);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{1, 1024, 768}), "[1, 1024, 768]");
  EXPECT_EQ(num_elements({max_elements}), max_elements);
  EXPECT_THROW(num_elements({max_elements, 2}), std::invalid_argument);
  EXPECT_THROW(num_elements({3, 0}), std::invalid_argument);
}

// A tied weight stands once, with both its users: the embedding [6, 4] is also the output layer's [out 6, in 4].
TEST(Graph, TiedParametersCountOnce) {
  GraphBuilder net("net");
  const auto x = net.embedding("wte", net.tokens("tokens", {1, 3}), 6, 4);
  net.linear("head", x, 6, false, {{"weight", "wte.weight"}});
  const Graph graph = std::move(net).finish();
  EXPECT_EQ(num_parameters(graph), 24);
  ASSERT_EQ(graph.parameters.size(), 1U);
  EXPECT_EQ(graph.parameters[0].users, (std::vector{OpId(1), OpId(2)}));
  EXPECT_EQ(graph.ops[1].parameters, graph.ops[2].parameters);
  EXPECT_EQ(bytes_of(graph, graph.parameters[0]), Bytes(96));
}

TEST(Graph, BlocksLabelWhatFollows) {
  GraphBuilder net("net");
  auto x = net.input("x", {1, 4});
  net.block("0");
  x = net.linear("a", x, 4);
  net.block("head");
  net.linear("b", x, 4);
  const Graph graph = std::move(net).finish();
  EXPECT_EQ(graph.ops[0].block, "");
  EXPECT_EQ(graph.ops[1].block, "0");
  EXPECT_EQ(graph.ops[2].block, "head");
}

TEST(Graph, SeveralOutputsAreNumbered) {
  GraphBuilder net("net");
  const auto parts =
      net.add(OpKind::split, "s", {net.linear("fc", net.input("x", {1, 4}), 4)}, {{"sizes", Shape{1, 3}}});
  net.concat("c", parts, -1);
  EXPECT_EQ(net.tensor(parts[0]).name, "s.0");
  EXPECT_EQ(net.tensor(parts[1]).name, "s.1");
  EXPECT_EQ(net.tensor(parts[1]).shape, (Shape{1, 3}));
  EXPECT_EQ(net.find_tensor("s.1"), parts[1]);
  EXPECT_EQ(net.find_tensor("s"), std::nullopt);
}

TEST(Graph, AnAttributeOfAnotherTypeIsOurFault) {
  GraphBuilder net("net");
  net.linear("fc", net.input("x", {1, 4}), 4);
  const Graph graph = std::move(net).finish();
  EXPECT_EQ(graph.ops[1].integer("out_features"), 4);
  EXPECT_TRUE(graph.ops[1].flag("bias"));
  EXPECT_THROW(graph.ops[1].real("out_features"), std::logic_error);
  EXPECT_THROW(graph.ops[1].integer("kernel"), std::logic_error);
}

/// A random DAG over tensors of one shape: sums, products, linear layers, splits joined again.
Graph random_graph(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  GraphBuilder net("random", 2);
  std::vector<TensorId> pool = {net.linear("first", net.input("x", {2, 6}), 6)};
  const auto pick = [&] { return pool[random() % pool.size()]; };
  for (int i = 0; i < 40; ++i) {
    const std::string name = "op" + std::to_string(i);
    switch (random() % 5) {
      case 0:
        pool.push_back(net.add(name, pick(), pick()));
        break;
      case 1:
        pool.push_back(net.mul(name, pick(), pick()));
        break;
      case 2:
        pool.push_back(net.linear(name, pick(), 6));
        break;
      case 3:
        pool.push_back(net.unary(OpKind::gelu, name, pick()));
        break;
      default: {
        const auto parts = net.add(OpKind::split, name, {pick()}, {{"sizes", Shape{2, 4}}});
        pool.push_back(net.concat(name + "c", {parts[1], parts[0]}, 1));
      }
    }
  }
  net.concat("last", pool, 1);  // reads all
  return std::move(net).finish();
}

TEST(Graph, RandomDagsAreTopologicalAndConsistent) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    EXPECT_EQ(graph, random_graph(seed));
    std::set<std::string> names;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const Tensor& tensor = graph.tensors[t];
      EXPECT_TRUE(names.insert(tensor.name).second);
      EXPECT_THAT(graph.op(tensor.producer).outputs, testing::Contains(TensorId(t)));
      EXPECT_TRUE(std::ranges::is_sorted(tensor.consumers));
      // The naive answer: every op that lists the tensor, once, and later than its producer.
      std::vector<OpId> readers;
      for (std::size_t o = 0; o < graph.ops.size(); ++o)
        if (std::ranges::count(graph.ops[o].inputs, TensorId(t)) > 0) readers.emplace_back(o);
      EXPECT_EQ(tensor.consumers, readers);
      for (const OpId reader : readers) EXPECT_LT(tensor.producer, reader);
      EXPECT_EQ(tensor.needs_gradient, tensor.name != "x");
    }
    for (std::size_t p = 0; p < graph.parameters.size(); ++p)
      for (const OpId user : graph.parameters[p].users)
        EXPECT_THAT(graph.op(user).parameters, testing::Contains(ParameterId(p)));
  }
}

}  // namespace
}  // namespace fusion
