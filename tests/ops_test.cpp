// The op table: shapes, FLOPs and bytes on problems small enough to check by hand, and what every row must obey.
#include "core/graph/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "core/base/error.h"
#include "core/graph/builder.h"

namespace fusion {
namespace {

using testing::HasSubstr;

/// Tensors that the op's backward needs, each once.
std::vector<TensorId> kept_tensors(const Graph& graph, OpId id) {
  const OpCosts costs = costs_of(graph, id);
  std::set<TensorId> kept;
  if (costs.keeps_inputs) kept.insert(graph.op(id).inputs.begin(), graph.op(id).inputs.end());
  if (costs.keeps_outputs) kept.insert(graph.op(id).outputs.begin(), graph.op(id).outputs.end());
  return {kept.begin(), kept.end()};
}

/// A graph that holds one op of interest, the last.
struct OneOp {
  Graph graph;
  OpId id;
  OpCosts costs() const { return costs_of(graph, id); }
  const Op& op() const { return graph.op(id); }
  Shape shape(std::size_t output = 0) const { return graph.tensor(op().outputs[output]).shape; }
};

/// The op of interest reads `shape`, made by a linear layer, so that a gradient flows through it.
OneOp after_linear(const Shape& shape, const std::function<void(GraphBuilder&, TensorId)>& add,
                   DType dtype = DType::fp32) {
  GraphBuilder net("test", shape[0], dtype);
  add(net, net.linear("before", net.input("x", shape), shape.back()));
  Graph graph = std::move(net).finish();
  return {graph, OpId(graph.ops.size() - 1)};
}

OneOp unary(OpKind kind, const Shape& shape, std::vector<Attribute> attributes = {}) {
  return after_linear(shape, [&](GraphBuilder& net, TensorId x) { net.unary(kind, "op", x, attributes); });
}

TEST(Ops, TableIsInTheOrderOfKinds) {
  ASSERT_EQ(op_table().size(), static_cast<std::size_t>(OpKind::upsample) + 1);
  for (std::size_t i = 0; i < op_table().size(); ++i) {
    const OpRow& row = op_table()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.kind), i) << row.name;
    EXPECT_EQ(find_op(row.name), &row);
    EXPECT_FALSE(row.help.empty());
  }
  EXPECT_EQ(find_op("conv3d"), nullptr);
}

// [2, 3] W^T with W [4, 3]: 8 outputs of 3 multiply-adds, 48 FLOPs; so are dx = dy W and dW = dy^T x.
// Bytes, fp32: x 24, W and b 48 + 16, y 32.
TEST(Ops, Linear) {
  const OneOp one = after_linear({2, 3}, [](GraphBuilder& net, TensorId x) { net.linear("op", x, 4); });
  EXPECT_EQ(one.shape(), (Shape{2, 4}));
  EXPECT_EQ(one.graph.parameter(one.op().parameters[0]).shape, (Shape{4, 3}));
  EXPECT_EQ(one.costs().forward, Flops(48));
  EXPECT_EQ(one.costs().input_gradient, Flops(48));
  EXPECT_EQ(one.costs().weight_gradient, Flops(48));
  EXPECT_EQ(one.costs().forward_bytes, Bytes(24 + 64 + 32));
  EXPECT_EQ(one.costs().weight_gradient_bytes, Bytes(32 + 24 + 64));  // reads dy and x, writes dW and db
  EXPECT_EQ(kept_tensors(one.graph, one.id), one.op().inputs);
}

// A layer on the picture itself has no input gradient to compute, but keeps the picture for its weights.
TEST(Ops, FirstLayerHasNoInputGradient) {
  GraphBuilder net("test", 1);
  net.conv2d("op", net.input("x", {1, 3, 5, 5}), 2, 3, 1, 0);
  const Graph graph = std::move(net).finish();
  const OpCosts costs = costs_of(graph, OpId(1));
  EXPECT_EQ(costs.forward, Flops(2 * 2 * 3 * 3 * 27));  // 2 channels of 3 x 3, each 3 x 3 x 3 multiply-adds
  EXPECT_EQ(costs.input_gradient, Flops(0));
  EXPECT_EQ(costs.input_gradient_bytes, Bytes(0));
  EXPECT_EQ(costs.weight_gradient, costs.forward);
  EXPECT_EQ(kept_tensors(graph, OpId(1)), (std::vector{TensorId(0)}));
}

// 5 x 5, kernel 3, padding 1, stride 2: (5 + 2 - 3) / 2 + 1 = 3. Groups 2 of 4 channels: weight [6, 2, 3, 3].
TEST(Ops, Conv2dStridePaddingGroups) {
  const OneOp one = unary(OpKind::conv2d, {1, 4, 5, 5},
                          {{"out_channels", 6}, {"kernel", 3}, {"stride", 2}, {"padding", 1}, {"groups", 2}});
  EXPECT_EQ(one.shape(), (Shape{1, 6, 3, 3}));
  EXPECT_EQ(one.graph.parameter(one.op().parameters[0]).shape, (Shape{6, 2, 3, 3}));
  EXPECT_EQ(one.costs().forward, Flops(2 * 54 * 18));
}

// q [1, 2, 4] with 2 heads of 2, k and v [1, 2, 2] with one shared head: 2 heads x 2 x 2 = 8 scores.
// q k^T: 8 scores of 2 multiply-adds = 32 FLOPs, p v: 8 outputs of 2 = 32; each has two gradients.
TEST(Ops, AttentionKeepsItsProbabilitiesUnlessFused) {
  for (const bool flash : {false, true}) {
    const OneOp one = after_linear({1, 2, 8}, [&](GraphBuilder& net, TensorId x) {
      const auto qkv = net.add(OpKind::split, "qkv", {x}, {{"sizes", Shape{4, 2, 2}}});
      net.add(OpKind::attention, "op", qkv, {{"heads", 2}, {"kv_heads", 1}, {"causal", true}, {"flash", flash}});
    });
    EXPECT_EQ(one.shape(), (Shape{1, 2, 4}));
    EXPECT_EQ(one.costs().forward, Flops(64));
    EXPECT_EQ(one.costs().input_gradient, Flops(128));
    EXPECT_EQ(one.costs().weight_gradient, Flops(0));
    // q 32, k 16, v 16, out 32; the scores of 32 bytes pass through memory four times.
    EXPECT_EQ(one.costs().forward_bytes, Bytes(flash ? 96 : 96 + 4 * 32));
    EXPECT_EQ(one.costs().kept_extra, Bytes(flash ? 2 * 2 * 4 : 32));  // log-sum-exp per head and token
    EXPECT_EQ(kept_tensors(one.graph, one.id).size(), flash ? 4U : 3U);
  }
}

// A million tokens: 2^40 scores a head are no tensor, but fused attention has none.
TEST(Ops, FusedAttentionTakesLongSequences) {
  const auto build = [](bool flash) {
    return after_linear({1, 1 << 20, 8}, [&](GraphBuilder& net, TensorId x) {
      net.add(OpKind::attention, "op", {x, x, x}, {{"heads", 2}, {"flash", flash}});
    });
  };
  EXPECT_EQ(build(true).costs().forward, Flops(4.0 * (1 << 20) * (1 << 20) * 8));
  EXPECT_THROW(build(false), InputError);
}

// [1, 2, 3] x [1, 3, 3]: 6 outputs of 3 multiply-adds = 36; a gradient for each input that needs one.
TEST(Ops, MatmulGradientsOnlyWhereNeeded) {
  const auto one = after_linear({1, 3, 3}, [](GraphBuilder& net, TensorId x) {
    net.add(OpKind::matmul, "op", {net.input("a", {1, 2, 3}), x});
  });
  EXPECT_EQ(one.costs().forward, Flops(36));
  EXPECT_EQ(one.costs().input_gradient, Flops(36));
  const auto both = after_linear({1, 3, 3}, [](GraphBuilder& net, TensorId x) {
    net.add(OpKind::matmul, "op", {x, x}, {{"transpose_b", true}});
  });
  EXPECT_EQ(both.costs().input_gradient, Flops(2 * 54));
}

TEST(Ops, WhatIsKeptForBackward) {
  const Shape picture = {2, 3, 4, 4};  // 96 elements, 384 bytes
  const auto kept = [](const OneOp& one) {
    const auto tensors = kept_tensors(one.graph, one.id);
    return std::pair(tensors, one.costs().kept_extra);
  };
  using Kept = std::pair<std::vector<TensorId>, Bytes>;
  const auto inputs = [](const OneOp& one) { return one.op().inputs; };
  const auto outputs = [](const OneOp& one) { return one.op().outputs; };

  for (const OpKind kind : {OpKind::gelu, OpKind::silu})
    EXPECT_EQ(kept(unary(kind, picture)), Kept(inputs(unary(kind, picture)), Bytes(0)));
  for (const OpKind kind : {OpKind::relu, OpKind::softmax})
    EXPECT_EQ(kept(unary(kind, picture)), Kept(outputs(unary(kind, picture)), Bytes(0)));
  // Mean and 1/std in fp32: per channel, or per row of the last dimension.
  EXPECT_EQ(kept(unary(OpKind::batch_norm, picture)).second, Bytes(2 * 3 * 4));
  EXPECT_EQ(kept(unary(OpKind::layer_norm, picture)).second, Bytes(2 * 24 * 4));
  EXPECT_EQ(kept(unary(OpKind::rms_norm, picture)).second, Bytes(24 * 4));
  EXPECT_EQ(kept(unary(OpKind::dropout, picture)), Kept({}, Bytes(96)));  // a mask of bytes
  EXPECT_EQ(kept(unary(OpKind::dropout, picture, {{"p", 0.0}})), Kept({}, Bytes(0)));
  EXPECT_EQ(kept(unary(OpKind::max_pool, picture, {{"kernel", 2}})).second, Bytes(24 * 8));  // int64 indices
  EXPECT_EQ(kept(unary(OpKind::split, picture, {{"sizes", Shape{1, 3}}})), Kept({}, Bytes(0)));
  const auto add = after_linear(picture, [](GraphBuilder& net, TensorId x) { net.add("op", x, x); });
  EXPECT_EQ(kept(add), Kept({}, Bytes(0)));
  const auto mul = after_linear(picture, [](GraphBuilder& net, TensorId x) { net.mul("op", x, x); });
  EXPECT_EQ(kept(mul), Kept({mul.op().inputs[0]}, Bytes(0)));  // once, though it is both factors
}

// log-softmax of 2 x 5 logits in fp32, and 2 labels of 8 bytes; the logits may go.
TEST(Ops, CrossEntropyIsAScalarThatKeepsLogProbabilities) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const auto one = after_linear(
        {2, 5}, [](GraphBuilder& net, TensorId x) { net.cross_entropy("op", x, net.label("y", {2})); }, dtype);
    EXPECT_EQ(one.shape(), Shape{});
    EXPECT_EQ(one.graph.tensor(one.op().outputs[0]).dtype, DType::fp32);
    EXPECT_EQ(one.costs().kept_extra, Bytes(2 * 5 * 4 + 2 * 8));
    EXPECT_TRUE(kept_tensors(one.graph, one.id).empty());
  }
}

// 2 tokens of a table of 100 rows x 4 features: forward reads 2 rows, the dense gradient writes all.
TEST(Ops, EmbeddingReadsOnlyTheRowsItLooksUp) {
  GraphBuilder net("test", 1);
  const TensorId tokens = net.tokens("tokens", {1, 2});
  const TensorId wte = net.embedding("wte", tokens, 100, 4);
  const TensorId wpe = net.unary(OpKind::embedding, "wpe", tokens, {{"rows", 2}, {"features", 4}, {"positions", true}});
  net.add("sum", wte, wpe);
  const Graph graph = std::move(net).finish();
  const OpCosts costs = costs_of(graph, OpId(1));
  EXPECT_EQ(costs.forward_bytes, Bytes(2 * 8 + 32 + 32));
  EXPECT_EQ(costs.weight_gradient_bytes, Bytes(2 * 8 + 32 + 1600));
  EXPECT_EQ(costs.input_gradient, Flops(0));
  EXPECT_EQ(graph.tensor(wpe).shape, (Shape{1, 2, 4}));
  EXPECT_EQ(kept_tensors(graph, OpId(1)), (std::vector{tokens}));
  EXPECT_TRUE(kept_tensors(graph, OpId(2)).empty());
}

TEST(Ops, HalfPrecisionHalvesActivationsAndParameters) {
  const auto bytes = [](DType dtype) {
    return after_linear(
               {2, 3}, [](GraphBuilder& net, TensorId x) { net.linear("op", x, 4); }, dtype)
        .costs()
        .forward_bytes;
  };
  EXPECT_EQ(bytes(DType::fp32), 2 * bytes(DType::bf16));
  EXPECT_EQ(bytes(DType::fp16), bytes(DType::bf16));
}

TEST(Ops, NothingFlowsBackThroughWhatDependsOnNoParameter) {
  GraphBuilder net("test", 1);
  net.linear("fc", net.unary(OpKind::gelu, "gelu", net.input("x", {1, 4})), 2);
  const Graph graph = std::move(net).finish();
  const OpCosts costs = costs_of(graph, OpId(1));
  EXPECT_GT(costs.forward, Flops(0));
  EXPECT_EQ(costs.input_gradient, Flops(0));
  EXPECT_TRUE(kept_tensors(graph, OpId(1)).empty());
  EXPECT_EQ(costs.kept_extra, Bytes(0));
}

/// A valid use of each row, on small shapes.
Graph example(OpKind kind) {
  GraphBuilder net("example", 2);
  const TensorId picture = net.conv2d("picture", net.input("x", {2, 3, 4, 4}), 4, 3, 1, 1);
  const TensorId tokens = net.tokens("tokens", {2, 4});
  const TensorId text = net.embedding("text", tokens, 10, 4);
  const auto last = [&](std::vector<TensorId> inputs, std::vector<Attribute> attributes = {}) {
    const TensorId flat = net.unary(OpKind::reshape, "flat", picture, {{"shape", Shape{2, 16, 4}}});
    const TensorId both = net.concat("both", {text, flat}, 1);
    net.cross_entropy("read", both, net.label("classes", {2, 20}));  // so that nothing is left unread
    net.add(kind, "op", std::move(inputs), std::move(attributes));
    return std::move(net).finish();
  };
  switch (kind) {
    case OpKind::input:
    case OpKind::label:
      return last({}, {{"shape", Shape{2, 3}}});
    case OpKind::embedding:
      return last({tokens}, {{"rows", 5}, {"features", 3}});
    case OpKind::linear:
      return last({text}, {{"out_features", 3}});
    case OpKind::conv2d:
      return last({picture}, {{"out_channels", 2}, {"kernel", 3}});
    case OpKind::attention:
      return last({text, text, text}, {{"heads", 2}, {"rotary_base", 1e4}});
    case OpKind::matmul:
      return last({picture, picture});
    case OpKind::add:
    case OpKind::mul:
      return last({picture, picture});
    case OpKind::max_pool:
    case OpKind::avg_pool:
      return last({picture}, {{"kernel", 2}});
    case OpKind::reshape:
      return last({picture}, {{"shape", Shape{2, 64}}});
    case OpKind::concat:
      return last({picture, picture});
    case OpKind::split:
      return last({picture}, {{"sizes", Shape{1, 3}}});
    case OpKind::cross_entropy:
      return last({text, net.label("y", {2, 4})});
    default:
      return last({picture});
  }
}

TEST(Ops, EveryRowObeysTheRules) {
  for (const OpRow& row : op_table()) {
    SCOPED_TRACE(row.name);
    const Graph graph = [&] {
      try {
        return example(row.kind);
      } catch (const InputError& error) {
        ADD_FAILURE() << error.what();
        return Graph{};
      }
    }();
    if (graph.ops.empty()) continue;
    const OpId id(graph.ops.size() - 1);
    const Op& op = graph.op(id);
    const OpCosts costs = costs_of(graph, id);
    ASSERT_EQ(op.kind, row.kind);
    ASSERT_FALSE(op.outputs.empty());
    EXPECT_EQ(op.attributes.size(), row.attributes.size());  // defaults are filled in

    for (const Flops flops : {costs.forward, costs.input_gradient, costs.weight_gradient}) EXPECT_GE(flops, Flops(0));
    for (const Bytes bytes :
         {costs.forward_bytes, costs.input_gradient_bytes, costs.weight_gradient_bytes, costs.kept_extra})
      EXPECT_GE(bytes, Bytes(0));
    Bytes written{};
    for (const TensorId out : op.outputs) written += bytes_of(graph.tensor(out));
    const bool moves = row.kind != OpKind::input && row.kind != OpKind::label && row.kind != OpKind::reshape;
    EXPECT_TRUE(!moves || costs.forward_bytes >= written);
    if (row.matmul_like) {
      EXPECT_GT(costs.forward, Flops(0));
      EXPECT_EQ(costs.input_gradient + costs.weight_gradient, 2 * costs.forward);
    }
    EXPECT_TRUE(!op.parameters.empty() || costs.weight_gradient_bytes == Bytes(0));
    EXPECT_TRUE(op.parameters.empty() || costs.weight_gradient_bytes >= written);
    EXPECT_EQ(costs.input_gradient_bytes > Bytes(0), moves && row.kind != OpKind::embedding);
  }
}

struct Mistake {
  std::function<void(GraphBuilder&, TensorId picture, TensorId text, TensorId tokens)> add;
  const char* message;
};

TEST(Ops, ShapeErrorsNameOpAndShapes) {
  using G = GraphBuilder;
  using T = TensorId;
  const std::vector<Mistake> mistakes = {
      {[](G& g, T, T text, T) { g.conv2d("op", text, 8, 3); },
       "op: [conv2d] input is [2, 6, 8], a picture is [B, C, H, W]"},
      {[](G& g, T p, T, T) { g.conv2d("op", p, 8, 9); }, "[conv2d] kernel is 9, the padded input is only 5 wide"},
      {[](G& g, T p, T, T) { g.conv2d("op", p, 8, 0); }, "[conv2d] kernel is 0, it must be at least 1"},
      {[](G& g, T p, T, T) { g.conv2d("op", p, 8, 3, 0); }, "[conv2d] stride is 0"},
      {[](G& g, T p, T, T) { g.conv2d("op", p, 8, 3, 1, -1); }, "[conv2d] padding is -1"},
      {[](G& g, T p, T, T) { g.conv2d("op", p, -8, 3); }, "[conv2d] out_channels and groups must be at least 1"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::conv2d, "op", p, {{"out_channels", 4}, {"kernel", 3}, {"groups", 3}});
       },
       "input has 4 channels, which 3 groups don't divide"},
      {[](G& g, T, T text, T) { g.linear("op", text, 0); }, "[linear] out_features is 0"},
      {[](G& g, T, T text, T) {
         g.linear("op", text, 10, false, {{"weight", "text.weight"}});
       },
       "[linear] weight must be [10, 8], it is tied to text.weight, which is [100, 8]"},
      {[](G& g, T, T text, T) {
         g.linear("op", text, 100, false, {{"weight", "txt.weight"}});
       },
       "weight is tied to parameter \"txt.weight\" is not known; did you mean \"text.weight\""},
      {[](G& g, T, T text, T) {
         g.linear("op", text, 100, false, {{"bias", "text.weight"}});
       },
       "\"bias\" is not known"},
      {[](G& g, T, T, T tokens) { g.linear("op", tokens, 8); }, "[linear] input \"tokens\" holds integers"},
      {[](G& g, T p, T text, T) { g.add("op", p, text); }, "[add] inputs are [2, 4, 5, 5] and [2, 6, 8]"},
      {[](G& g, T p, T, T) {
         g.concat("op", {p, g.unary(OpKind::max_pool, "m", p, {{"kernel", 2}})}, 1);
       },
       "[concat] input 0 is [2, 4, 5, 5], input 1 is [2, 4, 2, 2]; they may differ in dimension 1 alone"},
      {[](G& g, T p, T, T) {
         g.concat("op", {p, p}, 4);
       },
       "[concat] axis 4 is outside the 4 dimensions"},
      {[](G& g, T p, T, T) { g.concat("op", {p}, 1); }, "[concat] has 1 inputs, at least 2 are wanted"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::reshape, "op", p, {{"shape", Shape{2, 99}}});
       },
       "[reshape] input [2, 4, 5, 5] has 200 elements, shape [2, 99] has 198"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::reshape, "op", p, {{"shape", Shape{2, -1}}});
       },
       "a dimension below 1"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::split, "op", p, {{"axis", 1}, {"sizes", Shape{1, 2}}});
       },
       "[split] sizes [1, 2] don't add up to dimension 1 of the input [2, 4, 5, 5]"},
      {[](G& g, T, T t, T) {
         g.add(OpKind::attention, "op", {t, t, t}, {{"heads", 3}});
       },
       "[attention] q has 8 features, which 3 heads don't divide"},
      {[](G& g, T, T t, T) {
         g.add(OpKind::attention, "op", {t, t, t}, {{"heads", 4}, {"kv_heads", 3}});
       },
       "4 heads can't share 3 kv_heads evenly"},
      {[](G& g, T, T t, T) {
         g.add(OpKind::attention, "op", {t, t, t}, {{"heads", 4}, {"kv_heads", 2}});
       },
       "k has 8 features, 2 kv_heads of 2 are wanted"},
      {[](G& g, T, T t, T) {
         g.add(OpKind::attention, "op", {t, t, t}, {{"heads", 8}, {"rotary_base", 1e4}});
       },
       "a head of 1 features is odd"},
      {[](G& g, T, T t, T) {
         g.add(OpKind::matmul, "op", {t, t});
       },
       "[matmul] inputs are [2, 6, 8] and [2, 6, 8], the first has 8 columns, the second 6 rows"},
      {[](G& g, T, T t, T) {
         g.cross_entropy("op", t, g.label("y", {2, 5}));
       },
       "[cross_entropy] logits [2, 6, 8] need labels [2, 6], they are [2, 5]"},
      {[](G& g, T, T t, T) { g.cross_entropy("op", t, t); }, "second input must be a label"},
      {[](G& g, T, T t, T) { g.embedding("op", t, 10, 4); }, "input must hold token ids"},
      {[](G& g, T, T, T tokens) {
         g.unary(OpKind::embedding, "op", tokens, {{"rows", 5}, {"features", 4}, {"positions", true}});
       },
       "table has 5 positions, input has 6 tokens"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::dropout, "op", p, {{"p", 1.0}});
       },
       "[dropout] p is 1.000000"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::dropout, "op", p, {{"p", std::nan("")}});
       },
       "[dropout] p is nan"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::dropout, "op", p, {{"rate", 0.1}});
       },
       "\"rate\" is not known; valid: \"p\""},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::dropout, "op", p, {{"p", true}});
       },
       "p is true or false, a number is wanted"},
      {[](G& g, T p, T, T) { g.unary(OpKind::max_pool, "op", p); }, "attribute kernel is missing"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::max_pool, "op", p, {{"kernel", 2}, {"kernel", 3}});
       },
       "kernel is given twice"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::relu, "op", p, {{"slope", 0.1}});
       },
       "takes no attributes, \"slope\" is given"},
      {[](G& g, T p, T, T) { g.unary(OpKind::relu, "text", p); }, "an op named \"text\" exists already"},
      {[](G& g, T, T, T) {
         g.input("op", {3, 4});
       },
       "its dimension 0 must be the micro-batch, 2"},
      {[](G& g, T, T, T) { g.input("op", {}); }, "[input] shape is []"},
      {[](G& g, T, T, T) {
         g.input("op", {2, 0});
       },
       "shape [2, 0] has a dimension below 1"},
      // Overflow, in each place where numbers are multiplied.
      {[](G& g, T, T, T) {
         g.input("op", {2, 1LL << 32, 1LL << 31});
       },
       "more than 2^40 elements"},
      {[](G& g, T, T, T) {
         g.input("op", {2, 1LL << 62, 4});
       },
       "beyond 2^40"},
      {[](G& g, T, T text, T) { g.linear("op", text, 1LL << 40); }, "more than 2^40 elements"},
      {[](G& g, T p, T, T) { g.conv2d("op", p, 8, 1LL << 30, 1, 1LL << 40); }, "more than 2^40 elements"},
      {[](G& g, T p, T, T) {
         g.unary(OpKind::upsample, "op", p, {{"factor", 1LL << 40}});
       },
       "[upsample] factor is"},
      {[](G& g, T, T, T tokens) { g.embedding("op", tokens, 1LL << 40, 1LL << 40); }, "more than 2^40 elements"},
  };
  for (const Mistake& mistake : mistakes) {
    GraphBuilder net("net", 2);
    const TensorId picture = net.conv2d("picture", net.input("x", {2, 3, 5, 5}), 4, 1);
    const TensorId tokens = net.tokens("tokens", {2, 6});
    const TensorId text = net.embedding("text", tokens, 100, 8);
    try {
      mistake.add(net, picture, text, tokens);
      ADD_FAILURE() << "accepted, wanted: " << mistake.message;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(mistake.message));
      EXPECT_THAT(error.what(), testing::StartsWith("net: "));
    }
  }
}

}  // namespace
}  // namespace fusion
