// Evaluation of checkpoints: it is the forward pass of training, on any cut.
#include "exec/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "exec/handshake.h"
#include "tests/support/networks.h"
#include "tests/support/pipeline.h"
#include "tests/support/plain_backend.h"

namespace fusion::exec {
namespace {

struct Trained {
  Pipeline pipeline;
  std::vector<double> loss;
  Checkpoint checkpoint;
};

/// Seed 0: the samples of the first step are those that an evaluation begins with.
Trained trained(const Graph& graph, std::int64_t steps, double learning_rate) {
  Trained run{make_pipeline(graph, {}), {}, {}};
  TrainOptions options;
  options.steps = steps;
  options.seed = 0;
  options.optimizer.learning_rate = learning_rate;
  const auto results = train(run.pipeline, plain_backend(), options);
  run.loss = results[0].loss;
  run.checkpoint.info = {
      .step = steps, .seed = 0, .model = graph.name + ' ' + network_hash(graph), .optimizer = {}, .data = {}};
  const auto values = values_of(run.pipeline, results);
  for (std::size_t p = 0; p < values.size(); ++p) run.checkpoint.tensors["p/" + graph.parameters[p].name] = values[p];
  return run;
}

Evaluation evaluated(const Trained& run, const Cut& cut, EvaluateOptions options) {
  const Graph& graph = run.pipeline.graph;
  return evaluate(graph, make_pipeline(graph, cut).schedule, run.checkpoint, plain_backend(),
                  *open_data("synthetic", graph, 0), options);
}

// With a learning rate of 0 the parameters stay as they were made, and step 1 has the first four micro-batches.
TEST(Evaluate, LossIsThatOfATrainingStep) {
  const Trained run = trained(small_mlp(), 1, 0);
  EXPECT_EQ(evaluated(run, {}, {.micro_batches = 4}).loss, run.loss[0]);
}

TEST(Evaluate, DropsNothing) {
  const Graph graph = tied_net();  // with a dropout
  const Trained run = trained(graph, 1, 0);
  const auto data = open_data("synthetic", graph, 0);
  const auto loss = [&](std::uint64_t seed) {
    Schedule schedule = make_pipeline(graph, {}).schedule;
    schedule.seed = seed;
    return evaluate(graph, schedule, run.checkpoint, plain_backend(), *data, {.micro_batches = 4}).loss;
  };
  EXPECT_EQ(loss(1), loss(2));
  EXPECT_NE(loss(1), run.loss[0]);
}

TEST(Evaluate, IsTheSameOnEveryCutUnlessCoded) {
  const Graph graph = small_mlp();
  const Trained run = trained(graph, 3, 0.01);
  const Evaluation whole = evaluated(run, {}, {.micro_batches = 3});
  EXPECT_EQ(whole.step, 3);
  EXPECT_EQ(whole.samples, 3 * graph.micro_batch);
  const auto cut = [&](double ratio) {
    return Cut{.first_ops = even_cuts(graph, 3), .order = "1f1b", .codec = {CodecKind::topk, ratio}, .training = {}};
  };
  const auto loss = [&](double ratio, bool coded) {
    return evaluated(run, cut(ratio), {.micro_batches = 3, .coded = coded}).loss;
  };
  EXPECT_EQ(loss(8, false), whole.loss);
  EXPECT_EQ(loss(1, true), whole.loss);
  EXPECT_NE(loss(8, true), whole.loss);
}

TEST(Evaluate, AccuracyRisesWithTraining) {
  const Graph graph = small_mlp();
  const Trained fresh = trained(graph, 1, 0), later = trained(graph, 60, 0.1);
  const EvaluateOptions options{.micro_batches = 16};
  const Evaluation before = evaluated(fresh, {}, options), after = evaluated(later, {}, options);
  ASSERT_TRUE(before.accuracy && after.accuracy);
  EXPECT_GT(*after.accuracy, *before.accuracy);
  EXPECT_LE(*after.accuracy, 1);
  EXPECT_LT(after.loss, before.loss);
}

TEST(Evaluate, RefusesAnotherNetworkAndAMissingParameter) {
  Trained run = trained(small_mlp(), 1, 0);
  run.checkpoint.tensors.erase(run.checkpoint.tensors.begin());
  EXPECT_THROW(evaluated(run, {}, {}), InputError);
  run.checkpoint.info.model = "other 0";
  EXPECT_THROW(evaluated(run, {}, {}), InputError);
}

}  // namespace
}  // namespace fusion::exec
