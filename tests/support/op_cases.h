// Each op kind by itself: a part of one op between ops that make its inputs, with random values.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "exec/backend.h"

namespace fusion::exec {

struct OpCase {
  std::string name;
  OpKind kind;
  std::vector<Shape> inputs;
  std::vector<Attribute> attributes = {};
  std::int64_t bound = 0;  ///< of token ids or labels, where the op reads any
};

/// At least one case of every kind that computes.
inline std::vector<OpCase> op_cases() {
  using enum OpKind;
  return {
      {"embedding", embedding, {{2, 5}}, {{"rows", 7}, {"features", 3}}, 7},
      {"positions", embedding, {{2, 5}}, {{"rows", 7}, {"features", 3}, {"positions", true}}, 7},
      {"linear", linear, {{2, 3, 4}}, {{"out_features", 5}}},
      {"linear_no_bias", linear, {{3, 4}}, {{"out_features", 2}, {"bias", false}}},
      {"linear_vector", linear, {{4}}, {{"out_features", 3}}},
      {"conv2d", conv2d, {{2, 3, 6, 5}}, {{"out_channels", 4}, {"kernel", 3}, {"padding", 1}, {"bias", true}}},
      {"conv2d_strided", conv2d, {{2, 2, 7, 7}}, {{"out_channels", 3}, {"kernel", 3}, {"stride", 2}}},
      {"conv2d_1x1", conv2d, {{2, 3, 4, 4}}, {{"out_channels", 2}, {"kernel", 1}, {"stride", 2}}},
      {"conv2d_groups",
       conv2d,
       {{1, 4, 5, 5}},
       {{"out_channels", 6}, {"kernel", 3}, {"stride", 2}, {"padding", 1}, {"groups", 2}, {"bias", true}}},
      {"batch_norm", batch_norm, {{3, 4, 3, 2}}},
      {"layer_norm", layer_norm, {{2, 3, 8}}, {{"eps", 1e-3}}},
      {"rms_norm", rms_norm, {{2, 3, 8}}, {{"eps", 1e-3}}},
      {"relu", relu, {{4, 5}}},
      {"gelu", gelu, {{4, 5}}},
      {"gelu_tanh", gelu, {{4, 5}}, {{"tanh", true}}},
      {"silu", silu, {{4, 5}}},
      {"softmax", softmax, {{2, 3, 4}}},
      {"softmax_axis", softmax, {{2, 3, 4}}, {{"axis", 1}}},
      {"attention", attention, {{2, 4, 6}, {2, 4, 6}, {2, 4, 6}}, {{"heads", 2}, {"causal", true}}},
      {"attention_cross", attention, {{2, 3, 6}, {2, 5, 6}, {2, 5, 6}}, {{"heads", 3}}},
      {"attention_rotary",
       attention,
       {{2, 5, 16}, {2, 5, 8}, {2, 5, 8}},
       {{"heads", 4}, {"kv_heads", 2}, {"causal", true}, {"rotary_base", 100.0}}},
      {"attention_one_head", attention, {{1, 4, 6}, {1, 4, 6}, {1, 4, 6}}, {{"heads", 1}, {"flash", true}}},
      {"matmul", matmul, {{2, 3, 4}, {2, 4, 5}}},
      {"matmul_transposed", matmul, {{2, 2, 3, 4}, {2, 2, 5, 4}}, {{"transpose_b", true}}},
      {"matmul_flat", matmul, {{3, 4}, {4, 5}}},
      {"add", add, {{2, 3, 4}, {2, 3, 4}}},
      {"add_repeated", add, {{2, 3, 4}, {1, 3, 4}}},
      {"mul", mul, {{2, 3, 4}, {2, 3, 4}}},
      {"mul_repeated", mul, {{2, 3, 4}, {2, 1, 4}}},
      {"max_pool", max_pool, {{2, 3, 6, 6}}, {{"kernel", 2}}},
      {"max_pool_padded", max_pool, {{2, 2, 5, 7}}, {{"kernel", 3}, {"stride", 2}, {"padding", 1}}},
      {"avg_pool", avg_pool, {{2, 3, 5, 6}}, {{"kernel", 3}, {"stride", 2}, {"padding", 1}}},
      {"avg_pool_whole", avg_pool, {{2, 3, 4, 5}}},
      {"reshape", reshape, {{2, 3, 4}}, {{"shape", Shape{6, 4}}}},
      {"concat", concat, {{2, 3, 4}, {2, 1, 4}, {2, 2, 4}}},
      {"concat_last", concat, {{2, 3}, {2, 2}}, {{"axis", -1}}},
      {"split", split, {{2, 3, 6}}, {{"sizes", Shape{1, 2, 3}}}},
      {"split_middle", split, {{2, 5, 3}}, {{"axis", 1}, {"sizes", Shape{2, 3}}}},
      {"dropout", dropout, {{4, 5}}, {{"p", 0.4}}},
      {"dropout_none", dropout, {{4, 5}}, {{"p", 0.0}}},
      {"cross_entropy", cross_entropy, {{6, 5}, {6}}, {}, 5},
      {"cross_entropy_text", cross_entropy, {{2, 3, 7}, {2, 3}}, {}, 7},
      {"cross_entropy_picture", cross_entropy, {{2, 4, 3, 3}, {2, 3, 3}}, {{"axis", 1}}, 4},
      {"upsample", upsample, {{2, 3, 2, 3}}, {{"factor", 3}}},
  };
}

/// The op of a case as a part of its own; what makes its inputs is elsewhere, so that they need gradients.
struct LoneOp {
  Graph graph;
  OpId op;
  Part part;
};

inline LoneOp lone_op(const OpCase& the_case) {
  GraphBuilder net(the_case.name, 1);
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < the_case.inputs.size(); ++i) {
    const std::string number = std::to_string(i);
    const Shape flat = {1, num_elements(the_case.inputs[i])};
    TensorId x;
    if (the_case.kind == OpKind::embedding)
      x = net.tokens("in", flat);
    else if (the_case.kind == OpKind::cross_entropy && i == 1)
      x = net.label("label", flat);
    else
      x = net.linear("make" + number, net.input("in" + number, flat), flat[1]);
    inputs.push_back(net.unary(OpKind::reshape, "shaped" + number, x, {{"shape", the_case.inputs[i]}}));
  }
  const auto outputs = net.add(the_case.kind, "op", inputs, the_case.attributes);
  LoneOp lone;
  lone.graph = std::move(net).finish();
  lone.op = OpId(lone.graph.ops.size() - 1);
  Stage stage;
  stage.ops = {lone.op};
  lone.part = part_of(lone.graph, stage);
  if (!lone.part.has_loss) lone.part.outputs = outputs;  // read by somebody, let us say
  return lone;
}

inline HostTensor random_tensor(std::mt19937_64& random, const Shape& shape, DType dtype, std::int64_t bound) {
  HostTensor tensor = HostTensor::zeros(shape, dtype);
  if (dtype == DType::fp32)
    for (float& value : tensor.floats()) value = std::uniform_real_distribution<float>(-2, 2)(random);
  else
    for (std::int64_t& value : tensor.integers())
      value = std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random);
  return tensor;
}

/// Values of a part's inputs and data, or gradients of its outputs.
inline Values random_values(std::mt19937_64& random, const Graph& graph, const std::vector<TensorId>& ids,
                            std::int64_t bound = 0) {
  Values values;
  for (const TensorId id : ids)
    values.emplace(id, random_tensor(random, graph.tensor(id).shape, graph.tensor(id).dtype, bound));
  return values;
}

/// All of what a backend answers for one micro-batch.
struct OpAnswer {
  ForwardResult forward;
  Values input_gradients;
  ParameterStore store;
};

/// The same values for every backend, by the seed.
inline OpAnswer answer(const BackendRow& row, const LoneOp& lone, const OpCase& the_case, std::uint64_t seed,
                       const BackendOptions& options = {}) {
  std::mt19937_64 random(seed);
  OpAnswer result;
  result.store = make_store(lone.graph, lone.part, seed);
  for (const ParameterId id : lone.part.parameters)
    result.store.values[id.index()] = random_tensor(random, lone.graph.parameter(id).shape, DType::fp32, 0);
  const auto backend = row.make(lone.graph, lone.part, result.store, options);
  result.forward = backend->forward(0, random_values(random, lone.graph, lone.part.inputs, the_case.bound), {seed, 3});
  result.input_gradients = backend->backward(0, random_values(random, lone.graph, lone.part.outputs), 0.5);
  backend->fold_gradients();
  return result;
}

}  // namespace fusion::exec
