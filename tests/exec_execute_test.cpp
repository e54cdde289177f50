// Execution by threads with a backend of plain loops: what the walk, the wire and the checkpoints do, whatever
// computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/program/collective.h"
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

TEST(WorkLimit, FollowsWhatWasMeasuredOrGiven) {
  EXPECT_EQ(work_limit({}, {}), std::nullopt);                   // nothing to judge by
  EXPECT_EQ(work_limit(Seconds(1), {}), Seconds(60));            // the first step warms up
  EXPECT_EQ(work_limit(Seconds(10), {}), Seconds(100));          // 10 x 10
  EXPECT_EQ(work_limit({}, Seconds(0.5)), Seconds(60));          // 20 x 0.5 is less
  EXPECT_EQ(work_limit({}, Seconds(30)), Seconds(600));          // 20 x 30
  EXPECT_EQ(work_limit(Seconds(1), Seconds(0.1)), Seconds(10));  // 10 x 1
  EXPECT_EQ(work_limit(Seconds(1), Seconds(3)), Seconds(60));    // 20 x 3
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

/// Sums of gradients are bracketed otherwise than in one process, so their last bits may differ; copies may not, which
/// `outcome_of` checks.
void expect_near(const Outcome& replicated, const Outcome& one, const std::string& what) {
  EXPECT_THAT(replicated.loss, testing::Pointwise(testing::DoubleNear(1e-6), one.loss)) << what;
  for (std::size_t p = 0; p < one.values.size(); ++p) {
    EXPECT_THAT(replicated.values[p].floats(), testing::Pointwise(testing::FloatNear(1e-6F), one.values[p].floats()))
        << what;
    EXPECT_THAT(replicated.gradients[p].floats(),
                testing::Pointwise(testing::FloatNear(1e-6F), one.gradients[p].floats()))
        << what;
  }
}

TEST(Execute, ReplicasTrainAsOneRankDoesByEveryCollective) {
  TrainOptions options = three_steps();
  options.optimizer.kind = Optimizer::momentum;  // adam divides a gradient near 0 by its size
  options.optimizer.clip_norm = 0.5;
  for (const Graph& graph : {small_mlp(), tied_net()}) {
    Cut cut{.first_ops = {}, .order = "1f1b", .micro_batches = 12, .codec = {}, .training = {}};
    const Outcome one = outcome_of(graph, cut, options);
    for (const CollectiveRow& row : collective_table())
      for (const auto& [stages, replicas] : {std::pair(1, 2), {1, 3}, {1, 6}, {2, 2}, {2, 3}, {2, 4}}) {
        cut.first_ops = even_cuts(graph, static_cast<std::size_t>(stages));
        cut.replicas = replicas;
        cut.collective = row.name;
        expect_near(
            outcome_of(graph, cut, options), one,
            graph.name + ", " + cut.collective + ", " + std::to_string(stages) + " x " + std::to_string(replicas));
      }
  }
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

/// Losses of eight steps under top-k that keeps a quarter.
std::vector<double> losses_with(const CodecCourse& course) {
  const Graph graph = small_mlp();
  TrainOptions options = three_steps();
  options.steps = 8;
  options.codecs = course;
  const Cut cut{.first_ops = even_cuts(graph, 3), .order = "1f1b", .codec = {CodecKind::topk, 4}, .training = {}};
  return outcome_of(graph, cut, options).loss;
}

// The loss of step 6, counted from 1, is the first that a coded step shows in; with `after` 5 that is step 6 itself,
// whose activations are coded.
TEST(Execute, CodecsBeginAfterTheStepsThatTheCourseLeavesExact) {
  const std::vector<double> exact = losses_with({.after = 8}), later = losses_with({.after = 5});
  const Graph graph = small_mlp();
  TrainOptions options = three_steps();
  options.steps = 8;
  EXPECT_EQ(exact, outcome_of(graph, {}, options).loss);
  EXPECT_TRUE(std::equal(later.begin(), later.begin() + 5, exact.begin()));
  EXPECT_NE(later[5], exact[5]);
}

TEST(Execute, AWarmUpEndsAtTheFullRatioAndFeedbackIsAChoice) {
  const auto full = losses_with({}), warm = losses_with({.warmup = 4});
  EXPECT_NE(warm[0], full[0]);
  EXPECT_NE(losses_with({.feedback = Feedback::none}), full);
  EXPECT_NE(losses_with({.feedback = Feedback::gradients}), losses_with({.feedback = Feedback::none}));
  // The first message of an edge has nothing to add: the first micro-batch of the first step is alike, the rest is not.
  EXPECT_NE(losses_with({.feedback = Feedback::gradients}), full);
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

/// A backend whose forward takes one unit of time and whose backward takes two, and which knows how many micro-batches
/// it held at once.
constexpr std::chrono::milliseconds unit{5};
class TimedBackend : public Backend {
 public:
  TimedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  ForwardResult forward(int micro_batch, Values inputs, const RunSeed& seed) override {
    std::this_thread::sleep_for(unit);
    return inner_->forward(micro_batch, std::move(inputs), seed);
  }
  Values backward(int micro_batch, Values gradients, double loss_scale) override {
    std::this_thread::sleep_for(2 * unit);
    return inner_->backward(micro_batch, std::move(gradients), loss_scale);
  }
  void fold_gradients() override { inner_->fold_gradients(); }
  void parameters_changed() override { inner_->parameters_changed(); }

 private:
  std::unique_ptr<Backend> inner_;
};

constexpr BackendRow timed_row = {
    "timed", "for tests", [](OpKind) { return true; },
    [](const Graph& graph, const Part& part, ParameterStore& store,
       const BackendOptions& options) -> std::unique_ptr<Backend> {
      return std::make_unique<TimedBackend>(plain_backend().make(graph, part, store, options));
    }};

/// Units that one step of four stages takes. A busy machine makes it more, nothing makes it less.
double units_of(const char* order, int micro_batches) {
  const Graph graph = small_mlp();
  const Pipeline pipeline = make_pipeline(
      graph,
      {.first_ops = even_cuts(graph, 4), .order = order, .micro_batches = micro_batches, .codec = {}, .training = {}});
  TrainOptions options;
  options.steps = 2;
  return train(pipeline, timed_row, options)[0].measured.iteration.value / std::chrono::duration<double>(unit).count();
}

TEST(Golden, G5_OneMicroBatchOnFourRanks) { EXPECT_GE(units_of("1f1b", 1), 12); }

TEST(Golden, G6_FourRanksTakeNoLessThanThePipeline) {
  EXPECT_GE(units_of("1f1b", 4), 21);
  EXPECT_GE(units_of("1f1b", 8), 33);
  EXPECT_GE(units_of("gpipe", 8), 33);
}

/// Both ranks of a tied parameter send their gradient before they receive the other's.
TEST(Golden, G7_SendsBeforeReceivesAreRefusedUnderRendezvousAndRunBuffered) {
  const Graph graph = tied_net();
  Pipeline pipeline = make_pipeline(graph, {.first_ops = {5}, .order = "1f1b", .codec = {}, .training = {}});
  std::vector<Step> steps = expand(pipeline.program.devices[1].steps);
  const auto is = [&](TaskKind kind) {
    return std::ranges::find_if(steps, [&](const Step& step) {
      const Task& task = pipeline.program.task(step.task);
      return task.kind == kind && task.phase == Phase::exchange;
    });
  };
  ASSERT_LT(is(TaskKind::recv), is(TaskKind::send));
  std::iter_swap(is(TaskKind::recv), is(TaskKind::send));
  pipeline.program.devices[1].steps = steps;
  EXPECT_THAT([&] { validate(pipeline.program, pipeline.platform, Sends::rendezvous, "G7"); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("->")));
  validate(pipeline.program, pipeline.platform, Sends::buffered, "G7");
  EXPECT_EQ(values_of(pipeline, train(pipeline, plain_backend(), three_steps())),
            outcome_of(graph, {}, three_steps()).values);
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
