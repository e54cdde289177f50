// The planner's objective against closed forms and a naive walk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/plan/stage_costs.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

Prediction prediction_of(const Schedule& schedule, const Graph& graph, const Costs& costs, const Platform& platform) {
  return predict(schedule, graph, stage_costs(schedule, graph, costs, platform), platform);
}

/// Layer i on device i, each with tf = 1, tb = 2 on devices of 1 FLOP/s; messages of 32 B.
struct Line {
  explicit Line(std::size_t p, int m, BytesPerSecond bandwidth = BytesPerSecond(1e18), Seconds latency = {})
      : graph(chain_graph(p)), platform(star_platform(std::vector<double>(p, 1), bandwidth, latency)) {
    std::vector<double> forward(p + 1, 1), backward(p + 1, 2);
    forward[0] = backward[0] = 0;  // the input
    costs = flop_costs(forward, backward);
    std::vector<Stage> stages = {stage_of(0, 0, 2)};
    for (std::size_t s = 1; s < p; ++s) stages.push_back(stage_of(s, s + 1, s + 2));
    schedule = schedule_of(graph, std::move(stages), m);
  }
  Prediction operator()() const { return prediction_of(schedule, graph, costs, platform); }

  Graph graph;
  Platform platform;
  Costs costs;
  Schedule schedule;
};

// p (tf + tb) + (m - 1)(tf + tb): 12, 21 and 33, which are also the makespans of G5 and G6.
TEST(Predict, EqualStagesWithoutCommunication) {
  for (const auto& [m, expected] : std::map<int, double>{{1, 12}, {4, 21}, {8, 33}}) {
    const Prediction prediction = Line(4, m)();
    EXPECT_NEAR(prediction.iteration.value, expected, 1e-9);
    EXPECT_NEAR(prediction.fill.value, 12, 1e-9);
    EXPECT_NEAR(prediction.bottleneck.value, 3, 1e-9);
    EXPECT_EQ(prediction.bottleneck_name, "d0 (block 0)");
  }
}

// 32 B over 4 B/s is 8 s each way: fill 2 (tf + tb) + 2 x 8 = 22. The channel is the bottleneck, not compute; but stage
// 0 may have 2 micro-batches in flight, so micro-batches 2 and 4 wait for the round trips of 0 and 2: 22 + 2 x 22 = 66.
TEST(Predict, SlowChannelIsTheBottleneck) {
  const Prediction prediction = Line(2, 5, BytesPerSecond(4))();
  EXPECT_NEAR(prediction.fill.value, 22, 1e-9);
  EXPECT_NEAR(prediction.bottleneck.value, 8, 1e-9);
  EXPECT_NEAR(prediction.iteration.value, 66, 1e-9);
  EXPECT_EQ(prediction.bottleneck_name, "d0 -> d1");
  EXPECT_NEAR(prediction.pace.value, 11, 1e-9);
  EXPECT_EQ(prediction.pace_name, "the round trip from d0 with 2 micro-batches in flight");
}

// 5 s of latency each way: fill 2 x 3 + 10 = 16. It occupies nothing, so the bottleneck stays 3; but with 2
// micro-batches in flight, 2 and 4 wait for the round trips of 0 and 2: 16 + 2 x 16 = 48.
TEST(Predict, LatencyIsPaidOncePerRoundTrip) {
  const Prediction prediction = Line(2, 5, BytesPerSecond(1e18), Seconds(5))();
  EXPECT_NEAR(prediction.fill.value, 16, 1e-9);
  EXPECT_NEAR(prediction.bottleneck.value, 3, 1e-9);
  EXPECT_NEAR(prediction.iteration.value, 48, 1e-9);
}

// Only the links of d0 are slow, 8 s each way. Stages 0 and 1 turn round in 2 x 3 + 16 = 22 with 4 - 3 + 1 = 2
// micro-batches on the way, a pace of 11 where the whole pipeline would allow (4 x 3 + 16) / 4 = 7 and the channel 8.
// The 3 that follow the first in the warm-up go at the channel's pace: 28 + 3 x 8 + 96 x 11 = 1108.
TEST(Predict, ShortRoundTripSetsThePace) {
  Line line(4, 100);
  line.platform.links[0].bandwidth = line.platform.links[1].bandwidth = BytesPerSecond(4);
  const Prediction prediction = line();
  EXPECT_NEAR(prediction.fill.value, 28, 1e-9);
  EXPECT_NEAR(prediction.bottleneck.value, 8, 1e-9);
  EXPECT_NEAR(prediction.pace.value, 11, 1e-9);
  EXPECT_NEAR(prediction.iteration.value, 1108, 1e-9);
}

// All forwards come first, so activations and gradients never overlap: fill 6 + 16, then 2 x (8 + 8). By hand:
// activations arrive at 9, 17, 25; the last backward of stage 1 ends at 32, gradients arrive at 36, 44, 52; stage 0
// ends at 54.
TEST(Predict, GpipePaysBothPhases) {
  Line line(2, 3, BytesPerSecond(4));
  line.schedule.order = "gpipe";
  const Prediction prediction = line();
  EXPECT_NEAR(prediction.bottleneck.value, 16, 1e-9);
  EXPECT_NEAR(prediction.iteration.value, 54, 1e-9);
}

// The middle device sends an activation on and a gradient back over one NIC: 64 B over 4 B/s, twice a channel's 8 s.
TEST(Predict, SharedLinkIsTheBottleneck) {
  const Prediction prediction = Line(3, 2, BytesPerSecond(4))();
  EXPECT_NEAR(prediction.bottleneck.value, 16, 1e-9);
  EXPECT_THAT(prediction.bottleneck_name, testing::StartsWith("link d1."));
}

TEST(Predict, LinkThatIsNotSharedGivesEachMessageAllOfIt) {
  Line line(3, 2, BytesPerSecond(4));
  for (Link& link : line.platform.links) link.shared = false;
  EXPECT_NEAR(line().bottleneck.value, 8, 1e-9);
}

// One of 8 elements in the naive format: 12 B, and 104 around them (codec_test.cpp), are 29 s at 4 B/s. The gradient's
// 32 B take 8.
TEST(Predict, CountsWireBytes) {
  Line line(2, 1, BytesPerSecond(4));
  line.schedule.edges[0].activation = {CodecKind::topk_raw, 8};
  EXPECT_NEAR(line().fill.value, 6 + 8 + 29, 1e-9);
}

TEST(Predict, OneStageHasNoNetwork) {
  const Graph graph = chain_graph(2);
  const Prediction prediction = prediction_of(schedule_of(graph, {stage_of(0, 0, 3)}, 3), graph,
                                              flop_costs({0, 1, 1}, {0, 2, 2}), star_platform({1}, BytesPerSecond(1)));
  EXPECT_NEAR(prediction.iteration.value, 18, 1e-9);
  EXPECT_EQ(prediction.exchange, Seconds(0));
}

// The shared table of 40 fp32, 160 B, goes both ways at once over links of 4 B/s once an iteration: 40 s and 1 s
// latency, whatever the micro-batches. At 1 B/s of memory the two 160 B add up in 480 s, and the update reads and
// writes 640 + 320 B in 1920 s.
TEST(Predict, TiedGradientsAndUpdateCountOncePerIteration) {
  const Graph graph = tied_graph(2);
  const std::size_t n = graph.ops.size();
  Platform platform = star_platform({1, 1}, BytesPerSecond(4), Seconds(1));
  const Costs costs = flop_costs(std::vector<double>(n, 0), std::vector<double>(n, 0));
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 4), stage_of(1, 4, n)}, 1);
  schedule.training.optimizer = Optimizer::adam;
  EXPECT_NEAR(prediction_of(schedule, graph, costs, platform).exchange.value, 41, 1e-9);
  for (GpuType& gpu : platform.gpus) gpu.memory_bandwidth = BytesPerSecond(1);
  const Prediction one = prediction_of(schedule, graph, costs, platform);
  schedule.micro_batches = 6;
  const Prediction six = prediction_of(schedule, graph, costs, platform);
  EXPECT_NEAR((one.iteration - one.fill).value, 41 + 480 + 1920, 1e-6);
  EXPECT_NEAR((six.iteration - one.iteration).value, 5 * one.bottleneck.value, 1e-6);
}

/// Longest path through forward and backward of every stage, by recursion over the cut edges.
class NaiveFill {
 public:
  NaiveFill(const Schedule& schedule, const Graph& graph, const std::vector<StageCosts>& costs, double seconds_per_byte,
            double latency_s)
      : schedule_(schedule), graph_(graph), costs_(costs), seconds_per_byte_(seconds_per_byte), latency_s_(latency_s) {}

  double operator()() const {
    double longest = 0;
    for (std::size_t s = 0; s < costs_.size(); ++s) longest = std::max(longest, backward(s));
    return longest;
  }

 private:
  double transfer(StageId from, StageId to, bool gradient) const {
    double bytes = 0;
    for (const CutEdge& edge : schedule_.edges)
      if (edge.from == from && edge.to == to && (!gradient || graph_.tensor(edge.tensor).needs_gradient))
        bytes += static_cast<double>(bytes_of(graph_.tensor(edge.tensor)).value);
    return bytes == 0 ? -1e300 : latency_s_ + bytes * seconds_per_byte_;
  }
  double forward(std::size_t s) const {
    double start = 0;
    for (std::size_t from = 0; from < s; ++from)
      start = std::max(start, forward(from) + transfer(StageId(from), StageId(s), false));
    return start + costs_[s].forward_pass().value;
  }
  double backward(std::size_t s) const {
    double start = forward(s);
    for (std::size_t to = s + 1; to < costs_.size(); ++to)
      start = std::max(start, backward(to) + transfer(StageId(s), StageId(to), true));
    return start + costs_[s].backward_pass().value;
  }

  const Schedule& schedule_;
  const Graph& graph_;
  const std::vector<StageCosts>& costs_;
  double seconds_per_byte_, latency_s_;
};

TEST(Predict, FillIsTheLongestPathOnRandomBranchingGraphs) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> flops(0, 10);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = branching_graph(14, seed);
    std::vector<double> forward, backward;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      forward.push_back(flops(random));
      backward.push_back(flops(random));
    }
    std::vector<Stage> stages = {stage_of(0, 0, 1)};
    for (std::size_t op = 1; op < graph.ops.size(); ++op) {
      if (stages.size() < 6 && random() % 3 == 0) stages.push_back(stage_of(stages.size(), 0, 0));
      stages.back().ops.emplace_back(op);
    }
    const Schedule schedule = schedule_of(graph, stages, 3);
    const Platform platform = star_platform(std::vector<double>(6, 1), BytesPerSecond(8), Seconds(0.5));
    const auto costs = stage_costs(schedule, graph, flop_costs(forward, backward), platform);
    EXPECT_NEAR(predict(schedule, graph, costs, platform).fill.value, NaiveFill(schedule, graph, costs, 1.0 / 8, 0.5)(),
                1e-9)
        << seed;
  }
}

}  // namespace
}  // namespace fusion
