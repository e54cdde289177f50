// More small networks than networks.h has, for tests of backends, and what cuts them.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/models_text.h"
#include "exec/part.h"
#include "tests/support/networks.h"

namespace fusion::exec {

/// Two branches of different length with a skip over both, split, gated and joined again.
inline Graph gated_net() {
  GraphBuilder net("gated", 3);
  const TensorId stem = net.linear("stem", net.input("x", {3, 6}), 8);
  const auto halves = net.add(OpKind::split, "halves", {stem}, {{"axis", 1}, {"sizes", Shape{5, 3}}});
  TensorId left = net.unary(OpKind::gelu, "left.gelu", net.linear("left.fc", halves[0], 6));
  left = net.unary(OpKind::layer_norm, "left.norm", left);
  const TensorId square = net.mul("square", left, left);  // one op that reads a tensor twice
  TensorId right = net.unary(OpKind::silu, "right.silu", net.linear("right.fc", halves[1], 6));
  right = net.mul("gate", right, left);
  TensorId x = net.concat("join", {square, right}, 1);
  x = net.add("skip", net.linear("out", x, 8), stem);
  net.cross_entropy("loss", net.linear("head", x, 4), net.label("label", {3}));
  return std::move(net).finish();
}

/// Llama with two blocks: grouped queries, rotary positions, gates.
inline Graph tiny_llama() {
  const Llama model{.vocabulary = 29,
                    .positions = 16,
                    .features = 24,
                    .layers = 2,
                    .heads = 4,
                    .kv_heads = 2,
                    .head = 6,
                    .inner = 32,
                    .activation_attributes = {}};
  return build_llama("tiny llama", model, {.micro_batch = 2, .sequence_length = 9}, "tiny llama");
}

/// A stem, a block, and a block that halves the picture, with a projection beside it; named as torchvision's.
inline Graph projected_resnet() {
  GraphBuilder net("projected resnet", 3);
  const auto conv_norm = [&](const std::string& conv, const std::string& norm, TensorId x, std::int64_t channels,
                             std::int64_t kernel, std::int64_t stride) {
    return net.unary(OpKind::batch_norm, norm, net.conv2d(conv, x, channels, kernel, stride, kernel / 2));
  };
  TensorId x = net.unary(OpKind::relu, "relu", conv_norm("conv1", "bn1", net.input("image", {3, 3, 16, 16}), 8, 3, 1));
  x = net.unary(OpKind::max_pool, "maxpool", x, {{"kernel", 3}, {"stride", 2}, {"padding", 1}});
  for (const std::int64_t stride : {1, 2}) {
    const std::string at = "layer" + std::to_string(stride);
    const std::int64_t channels = 8 * stride;
    TensorId branch = conv_norm(at + ".conv1", at + ".bn1", x, channels, 3, stride);
    branch = conv_norm(at + ".conv2", at + ".bn2", net.unary(OpKind::relu, at + ".relu1", branch), channels, 3, 1);
    if (stride == 2) x = conv_norm(at + ".downsample.0", at + ".downsample.1", x, channels, 1, stride);
    x = net.unary(OpKind::relu, at + ".relu", net.add(at + ".add", branch, x));
  }
  x = net.unary(OpKind::reshape, "flat", net.unary(OpKind::avg_pool, "pool", x), {{"shape", Shape{3, 16}}});
  net.cross_entropy("loss", net.linear("fc", x, 10), net.label("label", {3}));
  return std::move(net).finish();
}

/// Pictures split and joined by channels, beside ops that may sum in another order where memory is not contiguous.
inline Graph channels_net() {
  GraphBuilder net("channels", 3);
  const TensorId stem = net.conv2d("stem", net.input("image", {3, 3, 9, 9}), 8, 3, 1, 1);
  const auto parts = net.add(OpKind::split, "split", {stem}, {{"axis", 1}, {"sizes", Shape{5, 3}}});
  const TensorId left = net.unary(OpKind::batch_norm, "left.bn", parts[0]);
  const TensorId right = net.unary(OpKind::batch_norm, "right.bn", net.conv2d("right.conv", parts[1], 4, 3, 1, 1));
  TensorId x = net.unary(OpKind::softmax, "softmax", net.concat("join", {left, right}, 1), {{"axis", 1}});
  x = net.unary(OpKind::reshape, "tokens", x, {{"shape", Shape{3, 9, 81}}});
  const TensorId a = net.unary(OpKind::layer_norm, "a.norm", x), b = net.unary(OpKind::rms_norm, "b.norm", x);
  x = net.add(OpKind::matmul, "scores", {a, b}, {{"transpose_b", true}})[0];
  x = net.unary(OpKind::reshape, "flat", x, {{"shape", Shape{3, 81}}});
  net.cross_entropy("loss", net.linear("head", x, 4), net.label("label", {3}));
  return std::move(net).finish();
}

/// A class per place of a picture: the loss runs along the channels.
inline Graph segmentation_net() {
  GraphBuilder net("segmentation", 3);
  const TensorId x = net.conv2d("conv", net.input("image", {3, 3, 9, 9}), 5, 3, 1, 1);
  const TensorId logits = net.unary(OpKind::batch_norm, "bn", x);
  net.add(OpKind::cross_entropy, "loss", {logits, net.label("label", {3, 9, 9})}, {{"axis", 1}});
  return std::move(net).finish();
}

/// Ranges of ops that begin at 0 and at each of `cuts`.
inline std::vector<Stage> stages_at(const Graph& graph, const std::vector<std::size_t>& cuts) {
  std::vector<Stage> stages;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (i == 0 || std::ranges::find(cuts, i) != cuts.end()) stages.emplace_back();
    stages.back().ops.emplace_back(i);
  }
  return stages;
}

inline std::vector<std::size_t> random_cuts(std::mt19937_64& random, const Graph& graph, std::size_t count) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; i < count; ++i)
    cuts.push_back(std::uniform_int_distribution<std::size_t>(1, graph.ops.size() - 1)(random));
  return cuts;
}

}  // namespace fusion::exec
