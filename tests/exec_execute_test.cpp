// Execution by threads with a backend of plain loops: what the walk, the wire and the checkpoints do, whatever
// computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/networks.h"
#include "tests/support/pipeline.h"
#include "tests/support/plain_backend.h"

namespace fusion::exec {
namespace {

TrainOptions three_steps() {
  TrainOptions options;
  options.steps = 3;
  options.optimizer.kind = Optimizer::adam;
  options.optimizer.learning_rate = 0.01;
  return options;
}

/// What a run leaves: everything that must be the same bits however the network is cut.
struct Outcome {
  std::vector<double> loss;
  std::vector<HostTensor> values, gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const Graph& graph, const Cut& cut, const TrainOptions& options) {
  const Pipeline pipeline = make_pipeline(graph, cut);
  const auto results = train(pipeline, plain_backend(), options);
  return {results[0].loss, values_of(pipeline, results), gradients_of(pipeline, results)};
}

/// Every way to cut a network in two, and a few in three and four.
std::vector<std::vector<std::size_t>> cuts_of(const Graph& graph) {
  std::vector<std::vector<std::size_t>> cuts;
  const std::size_t n = graph.ops.size();
  for (std::size_t op = 1; op < n; ++op) cuts.push_back({op});
  cuts.push_back(even_cuts(graph, 3));
  cuts.push_back({1, n - 1});
  cuts.push_back(even_cuts(graph, 4));
  cuts.push_back({n - 3, n - 2, n - 1});
  return cuts;
}

std::string text_of(const std::vector<std::size_t>& cut) { return testing::PrintToString(cut); }

/// Whether a tensor is read twice by a stage that is neither its own nor the last that reads it. That stage adds its
/// two gradients before they meet the last one's: a + (b + c), where one process has (a + b) + c.
bool brackets_differ(const Graph& graph, const std::vector<std::size_t>& first_ops) {
  const auto stage_of = [&](OpId op) { return std::ranges::upper_bound(first_ops, op.index()) - first_ops.begin(); };
  for (const Tensor& tensor : graph.tensors) {
    if (!tensor.needs_gradient || tensor.consumers.empty()) continue;
    std::map<std::ptrdiff_t, int> reads;
    for (const OpId op : tensor.consumers) ++reads[stage_of(op)];
    reads.erase(stage_of(tensor.producer));
    if (!reads.empty()) reads.erase(std::prev(reads.end()));
    for (const auto& [stage, count] : reads)
      if (count > 1) return true;
  }
  return false;
}

TEST(Execute, EveryCutAndOrderTrainsToTheBitsOfOneRank) {
  for (const Graph& graph : {small_mlp(), branching_net(), tied_net()}) {
    const Outcome one = outcome_of(graph, {}, three_steps());
    ASSERT_EQ(one.loss.size(), 3U);
    for (const auto& cut : cuts_of(graph)) {
      if (brackets_differ(graph, cut)) continue;
      for (const char* order : {"gpipe", "1f1b"})
        EXPECT_EQ(outcome_of(graph, {.first_ops = cut, .order = order, .codec = {}, .training = {}}, three_steps()),
                  one)
            << graph.name << ' ' << text_of(cut) << ' ' << order;
    }
  }
}

TEST(Execute, BracketsThatDifferCostTheLastBitsOnly) {
  const Graph graph = branching_net();
  const std::vector<std::size_t> cut = {3, 7, 10};
  ASSERT_TRUE(brackets_differ(graph, cut));
  const Outcome one = outcome_of(graph, {}, three_steps());
  const Outcome cut_up =
      outcome_of(graph, {.first_ops = cut, .order = "1f1b", .codec = {}, .training = {}}, three_steps());
  for (std::size_t p = 0; p < one.gradients.size(); ++p)
    EXPECT_THAT(cut_up.gradients[p].floats(), testing::Pointwise(testing::FloatNear(4e-5F), one.gradients[p].floats()));
}

TEST(Execute, ClippingByTheGlobalNormIsTheSameOnAnyNumberOfRanks) {
  TrainOptions options = three_steps();
  options.optimizer.clip_norm = 0.001;
  const Graph graph = tied_net();
  const Outcome one = outcome_of(graph, {}, options);
  EXPECT_NE(one, outcome_of(graph, {}, three_steps())) << "nothing was clipped";
  for (const auto& cut : cuts_of(graph))
    EXPECT_EQ(outcome_of(graph, {.first_ops = cut, .order = "1f1b", .codec = {}, .training = {}}, options), one)
        << text_of(cut);
}

TEST(Execute, FewerMicroBatchesThanStages) {
  const Graph graph = small_mlp();
  const Cut whole{.first_ops = {}, .order = "1f1b", .micro_batches = 1, .codec = {}, .training = {}};
  Cut cut = whole;
  cut.first_ops = even_cuts(graph, 4);
  EXPECT_EQ(outcome_of(graph, cut, three_steps()), outcome_of(graph, whole, three_steps()));
}

TEST(Execute, TopKThatKeepsEverythingIsExact) {
  const Graph graph = branching_net();
  const auto cut = even_cuts(graph, 3);
  const Codec all{CodecKind::topk, 1};
  EXPECT_EQ(outcome_of(graph, {.first_ops = cut, .order = "1f1b", .codec = all, .training = {}}, three_steps()),
            outcome_of(graph, {}, three_steps()));
}

TEST(Execute, EveryCodecOfThePlanTrains) {
  const Graph graph = small_mlp();
  TrainOptions options = three_steps();
  options.steps = 30;
  for (const CodecRow& row : codec_table()) {
    const Codec codec{row.kind, row.sparse ? 2.0 : 1.0};
    const Outcome coded =
        outcome_of(graph, {.first_ops = even_cuts(graph, 3), .order = "1f1b", .codec = codec, .training = {}}, options);
    EXPECT_LT(coded.loss.back(), coded.loss.front()) << row.name;
  }
}

TEST(Golden, G14_TiedEmbeddingsStayEqualOnTwoRanks) {
  TrainOptions options = three_steps();
  options.steps = 1;
  const Graph graph = tied_net();
  const Pipeline pipeline = make_pipeline(graph, {.first_ops = {5}, .order = "1f1b", .codec = {}, .training = {}});
  const auto results = train(pipeline, plain_backend(), options);
  const std::size_t wte = 0;
  ASSERT_EQ(graph.parameters[wte].name, "wte.weight");
  EXPECT_EQ(results[0].store.values[wte], results[1].store.values[wte]);
  EXPECT_EQ(results[0].store.gradients[wte], results[1].store.gradients[wte]);
  EXPECT_EQ(values_of(pipeline, results), outcome_of(graph, {}, options).values);
  // Once as parameters: 7 x 4 and the layer's 4 x 4 + 4. Twice as memory: each stage counts the 28.
  EXPECT_EQ(num_parameters(graph), 48);
  const auto costs = stage_costs(pipeline.schedule, graph, estimate(graph), pipeline.platform);
  EXPECT_EQ((costs[0].parameters + costs[1].parameters).value, (48 + 28) * 16);
}

TEST(Execute, RefusesWhatItCannotRun) {
  GraphBuilder net("half", 2, DType::fp16);
  net.cross_entropy("loss", net.linear("a", net.input("x", {2, 3}), 4), net.label("label", {2}));
  const Pipeline half = make_pipeline(std::move(net).finish(), {});
  EXPECT_THAT([&] { train(half, plain_backend(), {}); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("fp16 is not executed yet")));
}

TEST(Execute, ALossThatIsNotFiniteEndsEveryRank) {
  TrainOptions options = three_steps();
  options.optimizer = {.kind = Optimizer::sgd, .learning_rate = 1e30};
  const Pipeline pipeline =
      make_pipeline(small_mlp(), {.first_ops = {3, 6}, .order = "1f1b", .codec = {}, .training = {}});
  EXPECT_THAT([&] { train(pipeline, plain_backend(), options); },
              testing::ThrowsMessage<RuntimeFault>(testing::HasSubstr("not finite")));
}

}  // namespace
}  // namespace fusion::exec
