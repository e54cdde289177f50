// Op cases of random shapes and attributes, larger than those a naive model is fit for.
#pragma once

#include <random>

#include "tests/support/op_cases.h"

namespace fusion::exec {

class RandomOps {
 public:
  explicit RandomOps(std::uint64_t seed) : random_(seed) {}

  OpCase next(OpKind kind) {
    using enum OpKind;
    switch (kind) {
      case embedding:
        return embedding_case();
      case linear:
        return {"", kind, {shape(1, 3, 40)}, {{"out_features", whole(1, 60)}, {"bias", coin()}}};
      case conv2d:
        return conv_case();
      case batch_norm:
        return {"", kind, {picture(4, 14)}};
      case layer_norm:
      case rms_norm:
        return {"", kind, {shape(1, 3, 50)}};
      case softmax:
        return softmax_case();
      case attention:
        return attention_case();
      case matmul:
        return matmul_case();
      case add:
      case mul:
        return binary_case(kind);
      case max_pool:
      case avg_pool:
        return pool_case(kind);
      case concat:
        return concat_case();
      case split:
        return split_case();
      case dropout:
        return {"", kind, {shape(1, 3, 30)}, {{"p", 0.25}}};
      case cross_entropy:
        return cross_entropy_case();
      case upsample:
        return {"", kind, {picture(3, 8)}, {{"factor", whole(1, 4)}}};
      case reshape:
        return reshape_case();
      default:
        return {"", kind, {shape(1, 3, 40)}};
    }
  }

  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

 private:
  bool coin() { return whole(0, 1) == 1; }

  Shape shape(std::int64_t least_rank, std::int64_t most_rank, std::int64_t most) {
    Shape result;
    for (std::int64_t i = whole(least_rank, most_rank); i > 0; --i)
      result.push_back(whole(1, i == 1 ? most : std::max<std::int64_t>(most / 6, 2)));
    result.back() = std::max<std::int64_t>(result.back(), 4);  // a norm of fewer numbers is all rounding
    return result;
  }
  Shape picture(std::int64_t least, std::int64_t most) {
    return {whole(1, 3), whole(1, 6), whole(least, most), whole(least, most)};
  }
  std::int64_t axis_of(const Shape& of) {
    const auto rank = static_cast<std::int64_t>(of.size());
    return whole(-rank, rank - 1);
  }

  OpCase embedding_case() {
    const std::int64_t rows = whole(4, 50), tokens = whole(1, 4);
    return {"",
            OpKind::embedding,
            {{whole(1, 3), tokens}},
            {{"rows", rows}, {"features", whole(1, 20)}, {"positions", coin()}},
            rows};
  }
  OpCase conv_case() {
    const std::int64_t groups = whole(1, 2), kernel = whole(1, 4);
    return {"",
            OpKind::conv2d,
            {{whole(1, 3), groups * whole(1, 4), whole(4, 12), whole(4, 12)}},
            {{"out_channels", groups * whole(1, 5)},
             {"kernel", kernel},
             {"stride", whole(1, 3)},
             {"padding", whole(0, 2)},
             {"groups", groups},
             {"bias", coin()}}};
  }
  OpCase softmax_case() {
    const Shape of = shape(1, 3, 30);
    return {"", OpKind::softmax, {of}, {{"axis", axis_of(of)}}};
  }
  OpCase attention_case() {
    const std::int64_t kv = whole(1, 3), heads = kv * whole(1, 3), d = 2 * whole(1, 8), samples = whole(1, 3);
    const bool causal = coin();
    const std::int64_t tokens = whole(1, 20), keys = causal ? tokens : whole(1, 20);
    return {"",
            OpKind::attention,
            {{samples, tokens, heads * d}, {samples, keys, kv * d}, {samples, keys, kv * d}},
            {{"heads", heads}, {"kv_heads", kv}, {"causal", causal}, {"rotary_base", coin() ? 1e4 : 0.0}}};
  }
  OpCase matmul_case() {
    const std::int64_t lead = whole(1, 3), rows = whole(1, 20), inner = whole(1, 30), columns = whole(1, 20);
    const bool transposed = coin();
    const Shape b = transposed ? Shape{lead, columns, inner} : Shape{lead, inner, columns};
    return {"", OpKind::matmul, {{lead, rows, inner}, b}, {{"transpose_b", transposed}}};
  }
  OpCase binary_case(OpKind kind) {
    const Shape a = shape(1, 3, 20);
    Shape b = a;
    for (std::int64_t& length : b)
      if (whole(0, 2) == 0) length = 1;
    return {"", kind, {a, b}};
  }
  OpCase pool_case(OpKind kind) {
    const std::int64_t kernel = whole(kind == OpKind::avg_pool ? 0 : 1, 4);
    if (kernel == 0) return {"", kind, {picture(1, 9)}};
    return {
        "", kind, {picture(4, 12)}, {{"kernel", kernel}, {"stride", whole(0, 3)}, {"padding", whole(0, kernel / 2)}}};
  }
  OpCase concat_case() {
    const Shape first = shape(1, 3, 20);
    const std::int64_t axis = axis_of(first), rank = static_cast<std::int64_t>(first.size());
    OpCase made{"", OpKind::concat, {first}, {{"axis", axis}}};
    for (std::int64_t more = whole(1, 3); more > 0; --more) {
      made.inputs.push_back(first);
      made.inputs.back()[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = whole(1, 9);
    }
    return made;
  }
  OpCase split_case() {
    Shape whole_shape = shape(1, 3, 20);
    const std::int64_t axis = axis_of(whole_shape), rank = static_cast<std::int64_t>(whole_shape.size());
    Shape sizes;
    for (std::int64_t parts = whole(2, 4); parts > 0; --parts) sizes.push_back(whole(1, 9));
    std::int64_t& length = whole_shape[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
    length = 0;
    for (const std::int64_t size : sizes) length += size;
    return {"", OpKind::split, {whole_shape}, {{"axis", axis}, {"sizes", sizes}}};
  }
  OpCase cross_entropy_case() {
    const Shape logits = shape(1, 3, 40);
    const std::int64_t axis = axis_of(logits), rank = static_cast<std::int64_t>(logits.size());
    const std::int64_t place = axis < 0 ? axis + rank : axis;
    Shape labels = logits;
    labels.erase(labels.begin() + place);
    if (labels.empty()) return cross_entropy_case();
    return {"", OpKind::cross_entropy, {logits, labels}, {{"axis", axis}}, logits[static_cast<std::size_t>(place)]};
  }
  OpCase reshape_case() {
    const std::int64_t a = whole(1, 8), b = whole(1, 8), c = whole(1, 8);
    return {"", OpKind::reshape, {{a, b * c}}, {{"shape", Shape{a * b, c}}}};
  }

  std::mt19937_64 random_;
};

}  // namespace fusion::exec
