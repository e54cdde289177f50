// Execution with the frameworks: the same bits on any number of ranks, and the same training whatever computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/networks.h"
#include "tests/support/pipeline.h"

namespace fusion::exec {
namespace {

bool have(std::string_view name) {
  return std::ranges::any_of(backend_table(), [&](const BackendRow& row) { return row.name == name; });
}

TrainOptions adam(std::int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  options.optimizer = {.kind = Optimizer::adam, .learning_rate = 0.01, .clip_norm = 1};
  return options;
}

struct Outcome {
  std::vector<double> loss;
  std::vector<HostTensor> values, gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const Graph& graph, const Cut& cut, const TrainOptions& options) {
  const Pipeline pipeline = make_pipeline(graph, cut);
  const auto results = train(pipeline, find_backend("torch"), options);
  return {results[0].loss, values_of(pipeline, results), gradients_of(pipeline, results)};
}

Cut cut_at(std::vector<std::size_t> first_ops, const char* order = "1f1b", int micro_batches = 4) {
  return {
      .first_ops = std::move(first_ops), .order = order, .micro_batches = micro_batches, .codec = {}, .training = {}};
}

/// Even and uneven, for two, three and four ranks.
std::vector<std::vector<std::size_t>> cuts_of(const Graph& graph) {
  const std::size_t n = graph.ops.size();
  return {even_cuts(graph, 2), even_cuts(graph, 3), even_cuts(graph, 4), {2}, {n - 2}, {2, n - 3}, {2, 4, n - 2}};
}

class TorchBits : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!have("torch")) GTEST_SKIP() << "built without libtorch";
  }
};

std::vector<Graph> networks() { return {small_mlp(), branching_net(), tiny_gpt2(), small_resnet()}; }

TEST_P(TorchBits, AnyNumberOfRanksTrainsToTheBitsOfOne) {
  for (const Graph& graph : networks()) {
    const Outcome one = outcome_of(graph, cut_at({}, GetParam()), adam(3));
    for (const auto& cut : cuts_of(graph)) {
      if (brackets_differ(graph, cut)) continue;
      EXPECT_EQ(outcome_of(graph, cut_at(cut, GetParam()), adam(3)), one)
          << graph.name << ' ' << testing::PrintToString(cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, TorchBits, testing::Values("gpipe", "1f1b"),
                         [](const auto& order) { return "order_" + std::string(order.param); });

class Torch : public TorchBits {};

/// |a - b| <= atol + rtol |b|.
void expect_near(const std::vector<HostTensor>& left, const std::vector<HostTensor>& right, double rtol, double atol,
                 const std::string& what) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t p = 0; p < left.size(); ++p) {
    const auto a = left[p].floats(), b = right[p].floats();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(std::abs(a[i] - b[i]), atol + rtol * std::abs(b[i]))
          << what << ", parameter " << p << ", element " << i;
  }
}

TEST_F(Torch, FourMicroBatchesOnThreeRanksAreTheFullBatch) {
  TrainOptions step = adam(1);
  step.optimizer = {.kind = Optimizer::sgd, .learning_rate = 0.1};
  const std::vector<std::pair<Graph, Graph>> pairs = {{small_mlp(4), small_mlp(16)},
                                                      {plain_branching_net(4), plain_branching_net(16)},
                                                      {tiny_gpt2(2, 0), tiny_gpt2(8, 0)}};
  for (const auto& [part, whole] : pairs) {
    const Outcome micro = outcome_of(part, cut_at(even_cuts(part, 3)), step);
    const Outcome full = outcome_of(whole, cut_at({}, "1f1b", 1), step);
    expect_near(micro.gradients, full.gradients, 1e-5, 4e-5, part.name);
    expect_near(micro.values, full.values, 1e-5, 4e-5, part.name);
    EXPECT_NEAR(micro.loss[0], full.loss[0], 1e-5) << part.name;
  }
}

TEST_F(Torch, RecomputingChangesNoBit) {
  const Graph graph = tiny_gpt2();
  TrainOptions recompute = adam(2);
  recompute.backend.recompute = true;
  EXPECT_EQ(outcome_of(graph, cut_at(even_cuts(graph, 3)), recompute), outcome_of(graph, cut_at({}), adam(2)));
}

TEST_F(Torch, TopKThatKeepsEverythingIsExact) {
  const Graph graph = tiny_gpt2();
  Cut all = cut_at(even_cuts(graph, 3));
  all.codec = {CodecKind::topk, 1};
  EXPECT_EQ(outcome_of(graph, all, adam(2)), outcome_of(graph, cut_at({}), adam(2)));
}

TEST_F(Torch, RanksOfUnlikeFrameworksConvergeAlike) {
  if (!have("eigen")) GTEST_SKIP() << "built without the Eigen backend";
  const BackendRow &torch = find_backend("torch"), &eigen = find_backend("eigen");
  for (const Graph& graph : networks()) {
    const Pipeline pipeline = make_pipeline(graph, cut_at(even_cuts(graph, 3)));
    const auto alike = train(pipeline, torch, adam(12));
    const auto mixed = train(pipeline, {&torch, &eigen, &torch}, adam(12));
    EXPECT_LT(alike[0].loss.back(), alike[0].loss.front()) << graph.name;
    for (std::size_t step = 0; step < alike[0].loss.size(); ++step)
      EXPECT_NEAR(mixed[0].loss[step], alike[0].loss[step], 2e-3) << graph.name << ", step " << step;
  }
}

TEST(Golden, G14_TiedEmbeddingsOfTinyGpt2StayEqualOnTwoRanks) {
  if (!have("torch")) GTEST_SKIP() << "built without libtorch";
  const Graph graph = tiny_gpt2();
  const Pipeline pipeline = make_pipeline(graph, cut_at(even_cuts(graph, 2)));
  const auto results = train(pipeline, find_backend("torch"), adam(1));
  const auto wte = std::ranges::find(graph.parameters, "wte.weight", &Parameter::name) - graph.parameters.begin();
  const auto at = static_cast<std::size_t>(wte);
  EXPECT_EQ(results[0].store.values[at], results[1].store.values[at]);
  EXPECT_EQ(results[0].store.gradients[at], results[1].store.gradients[at]);
  EXPECT_EQ(values_of(pipeline, results), outcome_of(graph, cut_at({}), adam(1)).values);
  // Once as parameters; twice as memory, 16 bytes each with Adam: 17 x 16 elements more than the parameters.
  const auto costs = stage_costs(pipeline.schedule, graph, estimate(graph), pipeline.platform);
  EXPECT_EQ((costs[0].parameters + costs[1].parameters).value, (num_parameters(graph) + 17 * 16) * 16);
}

TEST(Golden, G5_FewerMicroBatchesThanStagesFinish) {
  if (!have("torch")) GTEST_SKIP() << "built without libtorch";
  const Graph graph = small_mlp();
  EXPECT_EQ(outcome_of(graph, cut_at(even_cuts(graph, 4), "1f1b", 1), adam(2)),
            outcome_of(graph, cut_at({}, "1f1b", 1), adam(2)));
}

}  // namespace
}  // namespace fusion::exec
