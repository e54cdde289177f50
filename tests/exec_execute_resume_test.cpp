// Checkpoints of a run by threads: it goes on to the same bits on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include "tests/support/networks.h"
#include "tests/support/pipeline.h"
#include "tests/support/plain_backend.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Resume : public testing::Test {
 protected:
  Resume() : directory_(fs::path(testing::TempDir()) / ("resume-" + std::to_string(::getpid()))) {
    fs::remove_all(directory_);
  }
  ~Resume() override { fs::remove_all(directory_); }

  TrainOptions options(std::int64_t steps) const {
    TrainOptions options;
    options.steps = steps;
    options.optimizer = {.kind = Optimizer::adam, .learning_rate = 0.01, .clip_norm = 0.01};
    options.checkpoint = {.directory = directory_, .every = 0, .resume = true, .model_hash = "model"};
    return options;
  }

  static Pipeline pipeline(std::size_t stages, Codec codec = {}) {
    const Graph graph = tied_net();
    return make_pipeline(graph,
                         {.first_ops = even_cuts(graph, stages), .order = "1f1b", .codec = codec, .training = {}});
  }

  fs::path directory_;
};

TEST_F(Resume, OnAnotherNumberOfRanksTheLossesAreTheSameBits) {
  TrainOptions whole = options(6);
  whole.checkpoint.directory.clear();
  const std::vector<double> loss = train(pipeline(1), plain_backend(), whole)[0].loss;
  std::vector<double> resumed;
  for (const std::size_t ranks : {3, 1, 4, 2}) {
    const auto steps = static_cast<std::int64_t>(resumed.size());
    const auto results = train(pipeline(ranks), plain_backend(), options(std::min<std::int64_t>(steps + 2, 6)));
    EXPECT_EQ(results[0].first_step, steps);
    resumed.insert(resumed.end(), results[0].loss.begin(), results[0].loss.end());
  }
  EXPECT_EQ(resumed, loss);
}

TEST_F(Resume, ErrorFeedbackGoesOnWhereTheEdgesAreTheSame) {
  const Pipeline coded = pipeline(3, {CodecKind::topk, 3});
  TrainOptions whole = options(6);
  whole.checkpoint.directory.clear();
  const std::vector<double> loss = train(coded, plain_backend(), whole)[0].loss;
  std::vector<double> resumed = train(coded, plain_backend(), options(3))[0].loss;
  const auto rest = train(coded, plain_backend(), options(6))[0].loss;
  resumed.insert(resumed.end(), rest.begin(), rest.end());
  EXPECT_EQ(resumed, loss);
}

TEST_F(Resume, ErrorFeedbackOfAVanishedEdgeIsDroppedWithANotice) {
  train(pipeline(3, {CodecKind::topk, 3}), plain_backend(), options(2));
  std::vector<std::string> notices;
  TrainOptions more = options(4);
  more.notice = [&](const std::string& line) { notices.push_back(line); };
  const auto results = train(pipeline(1), plain_backend(), more);
  EXPECT_EQ(results[0].loss.size(), 2U);
  EXPECT_THAT(notices, testing::Contains(HasSubstr("has no edge in this plan and is dropped")));
}

TEST_F(Resume, StoppingFinishesTheStepAndWritesIt) {
  std::atomic<bool> stop = false;
  TrainOptions asked = options(100);
  asked.stop = &stop;
  asked.on_step = [&](const StepSummary& step) { stop = step.step == 2; };
  const auto results = train(pipeline(3), plain_backend(), asked);
  for (const RankResult& result : results) {
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(result.steps, results[0].steps);
  }
  // Seen by all ranks after the step that ran when it was set, at the latest after the one that follows.
  EXPECT_THAT(results[0].steps, testing::AllOf(testing::Ge(2), testing::Le(3)));
  EXPECT_EQ(train(pipeline(2), plain_backend(), options(5))[0].first_step, results[0].steps);
}

TEST_F(Resume, KeepsTheNewestStepsOnly) {
  TrainOptions often = options(6);
  often.checkpoint.every = 1;
  often.checkpoint.keep = 2;
  train(pipeline(2), plain_backend(), often);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(directory_)) left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre("step-00000005", "step-00000006"));
}

// A step beyond those that are written, torn off by a kill, is not one of those that count.
TEST_F(Resume, ATornStepDoesNotPushOutWholeOnes) {
  TrainOptions first = options(6);
  first.checkpoint.every = 3;
  train(pipeline(2), plain_backend(), first);
  fs::remove(directory_ / "step-00000006" / "COMPLETE");
  TrainOptions again = options(5);
  again.checkpoint.every = 1;
  again.checkpoint.keep = 1;
  EXPECT_EQ(train(pipeline(2), plain_backend(), again)[0].first_step, 3);
  EXPECT_TRUE(fs::exists(directory_ / "step-00000005" / "COMPLETE"));
  EXPECT_FALSE(fs::exists(directory_ / "step-00000004"));
  EXPECT_EQ(train(pipeline(2), plain_backend(), options(5))[0].first_step, 5);
}

TEST_F(Resume, RefusesADirectoryWithStepsUnlessAsked) {
  train(pipeline(2), plain_backend(), options(1));
  TrainOptions fresh = options(2);
  fresh.checkpoint.resume = false;
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), fresh); }, ThrowsMessage<InputError>(HasSubstr("--resume")));
}

TEST_F(Resume, RefusesWhatAnotherRunWrote) {
  train(pipeline(2), plain_backend(), options(1));
  TrainOptions model = options(2), optimizer = options(2), seed = options(2);
  model.checkpoint.model_hash = "another";
  optimizer.optimizer.kind = Optimizer::sgd;
  seed.seed = 9;
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), model); }, ThrowsMessage<InputError>(HasSubstr("model_hash")));
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), optimizer); },
              ThrowsMessage<InputError>(HasSubstr("optimizer")));
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), seed); }, ThrowsMessage<InputError>(HasSubstr("seed")));
}

TEST_F(Resume, PassesOverADamagedStepAndSaysSo) {
  TrainOptions often = options(4);
  often.checkpoint.every = 2;
  const auto whole = train(pipeline(2), plain_backend(), often)[0].loss;
  std::ofstream(directory_ / "step-00000004" / "rank-1.safetensors", std::ios::app) << "x";
  std::vector<std::string> notices;
  TrainOptions again = options(4);
  again.notice = [&](const std::string& line) { notices.push_back(line); };
  const auto resumed = train(pipeline(3), plain_backend(), again);
  EXPECT_EQ(resumed[0].first_step, 2);
  EXPECT_EQ(resumed[0].loss, std::vector(whole.begin() + 2, whole.end()));
  EXPECT_THAT(notices, testing::Contains(HasSubstr("rank-1.safetensors")));
}

}  // namespace
}  // namespace fusion::exec
