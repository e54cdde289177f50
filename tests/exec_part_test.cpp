#include "exec/part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "exec/backend.h"
#include "tests/support/exec_nets.h"
#include "tests/support/plan_cases.h"

namespace fusion::exec {
namespace {

using testing::Test;

TensorId tensor_named(const Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.tensors, name, &Tensor::name);
  return TensorId(static_cast<std::size_t>(found - graph.tensors.begin()));
}

/// tokens, label, wte, l0, l1, head, loss with the table of wte tied to the head's weight.
TEST(Part, NamesWhatCrossesACut) {
  const Graph graph = tied_graph(2);
  const std::vector<Stage> stages = stages_at(graph, {4});
  const Part first = part_of(graph, stages[0]), last = part_of(graph, stages[1]);
  const TensorId tokens = tensor_named(graph, "tokens"), label = tensor_named(graph, "label");
  const TensorId between = tensor_named(graph, "l0");

  EXPECT_EQ(first.ops, stages[0].ops);
  EXPECT_TRUE(first.inputs.empty());
  EXPECT_EQ(first.data, (std::vector{tokens, label}));
  EXPECT_EQ(first.outputs, (std::vector{label, between}));  // the label is read by the loss
  EXPECT_FALSE(first.has_loss);

  EXPECT_EQ(last.inputs, (std::vector{label, between}));
  EXPECT_TRUE(last.data.empty() && last.outputs.empty());
  EXPECT_TRUE(last.has_loss);
  const ParameterId table = graph.ops[2].parameters[0];
  EXPECT_TRUE(std::ranges::count(first.parameters, table) == 1 && std::ranges::count(last.parameters, table) == 1);
}

TEST(Part, ATiedParameterOfOnePartCountsOnce) {
  const Graph graph = tied_graph(1);
  const Part whole = part_of(graph, stages_at(graph, {})[0]);
  EXPECT_EQ(whole.parameters.size(), graph.parameters.size());
  EXPECT_TRUE(whole.inputs.empty() && whole.outputs.empty());
}

/// Over random cuts of a branching net: a tensor is an input of exactly the parts that read it and don't make it, an
/// output of its maker if there are any, and all ids ascend without repeats.
TEST(Part, InputsAndOutputsMatchOnRandomCuts) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const Graph graph = branching_graph(2 + random() % 6, random());
    std::vector<Part> parts;
    for (const Stage& stage : stages_at(graph, random_cuts(random, graph, random() % 5)))
      parts.push_back(part_of(graph, stage));
    const auto holds = [](const Part& part, OpId op) { return std::ranges::find(part.ops, op) != part.ops.end(); };
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const TensorId id(t);
      bool leaves = false;
      for (const Part& part : parts) {
        const bool made_here = holds(part, graph.tensor(id).producer);
        const bool read_here =
            std::ranges::any_of(graph.tensor(id).consumers, [&](OpId op) { return holds(part, op); });
        EXPECT_EQ(std::ranges::count(part.inputs, id), read_here && !made_here ? 1 : 0);
        leaves |= read_here && !made_here;
      }
      for (const Part& part : parts)
        EXPECT_EQ(std::ranges::count(part.outputs, id), leaves && holds(part, graph.tensor(id).producer) ? 1 : 0);
    }
    for (const Part& part : parts)
      EXPECT_TRUE(std::ranges::is_sorted(part.inputs) && std::ranges::is_sorted(part.outputs) &&
                  std::ranges::is_sorted(part.parameters));
  }
}

TEST(Part, StoreHoldsItsParametersAlone) {
  const Graph graph = tied_graph(2);
  const Part first = part_of(graph, stages_at(graph, {4})[0]);
  const ParameterStore store = make_store(graph, first, 3);
  ASSERT_EQ(store.values.size(), graph.parameters.size());
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const bool held = std::ranges::count(first.parameters, ParameterId(i)) == 1;
    EXPECT_EQ(store.values[i].shape, held ? graph.parameters[i].shape : Shape{});
    EXPECT_EQ(store.values[i].data.empty(), !held);
    EXPECT_EQ(store.gradients[i], held ? HostTensor::zeros(graph.parameters[i].shape) : HostTensor{});
  }
}

/// A copy of a tied parameter begins with the same bits on both ranks.
TEST(Part, StoresOfTwoPartsAgree) {
  const Graph graph = tied_graph(2);
  const std::vector<Stage> stages = stages_at(graph, {4});
  const ParameterStore first = make_store(graph, part_of(graph, stages[0]), 3);
  const ParameterStore last = make_store(graph, part_of(graph, stages[1]), 3);
  const std::size_t table = graph.ops[2].parameters[0].index();
  EXPECT_EQ(first.values[table], last.values[table]);
}

}  // namespace
}  // namespace fusion::exec
