// Checkpoints of a run by threads: it goes on to the same bits on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <mutex>
#include <thread>

#include "exec/checkpoint.h"
#include "exec/execute_data.h"
#include "exec/handshake.h"
#include "exec/transport_threads.h"
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
    options.checkpoint = {.directory = directory_, .every = 0, .resume = true, .model = "model"};
    return options;
  }

  static Pipeline pipeline(std::size_t stages, Codec codec = {}, int micro_batches = 4) {
    const Graph graph = tied_net();
    return make_pipeline(graph, {.first_ops = even_cuts(graph, stages),
                                 .order = "1f1b",
                                 .micro_batches = micro_batches,
                                 .codec = codec,
                                 .training = {}});
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
  EXPECT_EQ(std::ranges::count_if(notices, [](const std::string& line) { return line.find("dropped") != line.npos; }),
            1);
  EXPECT_THAT(notices,
              testing::Contains(testing::AllOf(HasSubstr("error feedback of"), HasSubstr(" others has no edge"))));
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
  model.checkpoint.model = "another";
  optimizer.optimizer.kind = Optimizer::sgd;
  seed.seed = 9;
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), model); },
              ThrowsMessage<InputError>(HasSubstr("model: is of")));
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), optimizer); },
              ThrowsMessage<InputError>(HasSubstr("optimizer")));
  EXPECT_THAT([&] { train(pipeline(2), plain_backend(), seed); }, ThrowsMessage<InputError>(HasSubstr("seed")));
}

/// Made-up data that keeps the numbers of the samples that inputs are filled with, and may call itself another.
class Watched : public DataSet {
 public:
  Watched(const Graph& graph, std::string name = "watched") : data_(open_data("synthetic", graph, 1)), name_(name) {}
  std::int64_t num_samples() const override { return 20; }
  std::string identity() const override { return name_; }
  void fill(std::int64_t i, std::int64_t row, HostTensor& input, HostTensor& label) const override {
    const std::scoped_lock lock(mutex_);
    taken_.push_back(i);
    data_->fill(i, row, input, label);
  }
  std::vector<std::int64_t> taken() const { return std::exchange(taken_, {}); }

 private:
  std::unique_ptr<DataSet> data_;
  std::string name_;
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> taken_;
};

std::vector<double> train_on(const DataSet& data, const Pipeline& pipeline, const TrainOptions& options) {
  const std::vector<const BackendRow*> backends(pipeline.program.devices.size(), &plain_backend());
  return execute_threads(pipeline.program, pipeline.graph, backends, &data, options)[0].loss;
}

// The samples that a run takes, whatever a step takes of them: 2 x 4 B, then 3 x 2 B, then 1 x 5 B.
TEST_F(Resume, AnotherNumberOfSamplesPerStepGoesOnWhereTheDataWasLeft) {
  const std::int64_t b = tied_net().micro_batch;
  const Watched data(tied_net());
  TrainOptions whole = options(19);
  whole.checkpoint.directory.clear();
  train_on(data, pipeline(1, {}, 1), whole);  // 19 x 1 B in one go
  const std::vector<std::int64_t> expected = data.taken();
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(19 * b));

  std::vector<std::string> notices;
  const auto go_on = [&](std::int64_t until, int micro_batches) {
    TrainOptions more = options(until);
    more.notice = [&](const std::string& line) { notices.push_back(line); };
    train_on(data, pipeline(1, {}, micro_batches), more);
  };
  go_on(2, 4);
  EXPECT_THAT(notices, testing::Each(HasSubstr("begins anew")));
  go_on(5, 2);
  EXPECT_THAT(notices, testing::Contains(HasSubstr("a step takes " + std::to_string(2 * b) + " samples, and took " +
                                                   std::to_string(4 * b) +
                                                   " before: goes on where the data was left, "
                                                   "after " +
                                                   std::to_string(8 * b) + " samples")));
  go_on(6, 5);
  EXPECT_EQ(data.taken(), expected);
}

// The position is kept over a change and back: what counts is what was taken, not steps times samples.
TEST_F(Resume, ThePositionSurvivesSeveralResumes) {
  const Watched data(tied_net());
  TrainOptions often = options(3);
  train_on(data, pipeline(1, {}, 2), often);
  train_on(data, pipeline(3, {}, 4), options(4));
  train_on(data, pipeline(2, {}, 4), options(6));
  const Checkpoint last = read_checkpoint(directory_ / "step-00000006");
  const std::int64_t b = tied_net().micro_batch, samples = (3 * 2 + 3 * 4) * b;
  EXPECT_EQ(last.info.data, (DataState{"watched", samples, samples / 20, 4 * b}));
}

TEST_F(Resume, RefusesOtherData) {
  train_on(Watched(tied_net(), "text of bytes, checksum 1"), pipeline(2), options(1));
  EXPECT_THAT([&] { train_on(Watched(tied_net(), "text of bytes, checksum 2"), pipeline(3), options(2)); },
              ThrowsMessage<InputError>(
                  HasSubstr("data: is of \"text of bytes, checksum 1\"; this run has \"text of bytes, checksum 2\"")));
}

// A micro-batch of another size: the same network, error feedback of another size.
TEST_F(Resume, AnotherMicroBatchKeepsTheWeightsAndDropsErrorFeedback) {
  const Graph large = tied_net(2 * tied_net().micro_batch);
  EXPECT_EQ(network_hash(large), network_hash(tied_net()));
  EXPECT_NE(model_hash(large), model_hash(tied_net()));
  const Codec codec{CodecKind::topk, 3};
  train(pipeline(3, codec), plain_backend(), options(2));
  std::vector<std::string> notices;
  TrainOptions more = options(3);
  more.notice = [&](const std::string& line) { notices.push_back(line); };
  const Pipeline other = make_pipeline(large, {.first_ops = even_cuts(large, 3), .codec = codec, .training = {}});
  EXPECT_EQ(train(other, plain_backend(), more)[0].first_step, 2);
  EXPECT_THAT(notices, testing::Contains(HasSubstr("has no edge of its size in this plan and is dropped")));
}

TEST(AgreeOnData, AllKnowWhatSomeHold) {
  const Watched data(tied_net());
  auto transports = make_thread_transports(3);
  std::vector<DataFacts> facts(3);
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < 3; ++rank)
      ranks.emplace_back([&, rank] {
        Council council(*transports[rank]);
        facts[rank] = agree_on_data(council, rank == 1 ? &data : nullptr);
      });
  }
  for (const DataFacts& known : facts) {
    EXPECT_EQ(known.identity, "watched");
    EXPECT_EQ(known.num_samples, 20);
  }
}

TEST(AgreeOnData, TwoRanksWithUnlikeDataAreToldApart) {
  const Watched one(tied_net(), "one"), two(tied_net(), "two");
  auto transports = make_thread_transports(2);
  std::vector<std::string> messages(2);
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        Council council(*transports[rank]);
        try {
          agree_on_data(council, rank == 0 ? &one : &two);
        } catch (const InputError& error) {
          messages[rank] = error.what();
        }
      });
  }
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("--data: rank 0 has \"one\", rank 1 has \"two\""));
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

// A kill tears one step at most, and leaves the one before it whole: several torn ones are damage, and stay.
TEST_F(Resume, NothingIsTrainedOverSeveralTornSteps) {
  TrainOptions often = options(4);
  often.checkpoint.every = 2;
  const auto whole = train(pipeline(2), plain_backend(), often)[0].loss;
  for (const char* step : {"step-00000002", "step-00000004"})
    std::ofstream(directory_ / step / "rank-1.safetensors", std::ios::app) << "x";
  EXPECT_THROW(train(pipeline(2), plain_backend(), options(4)), InputError);
  EXPECT_TRUE(fs::exists(directory_ / "step-00000004" / "rank-0.safetensors"));
  fs::remove_all(directory_ / "step-00000004");
  EXPECT_EQ(train(pipeline(2), plain_backend(), options(4))[0].loss, whole);
}

}  // namespace
}  // namespace fusion::exec
