// Cut edges of a placement, and every way in which a schedule can be wrong.
#include "core/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

using testing::HasSubstr;

/// x feeds a and b, both feed sum, which feeds tail: ops x 0, a 1, b 2, sum 3, tail 4; tensors by the same numbers.
Graph diamond() {
  GraphBuilder net("diamond", 2);
  const TensorId x = net.input("x", {2, 4});
  const TensorId a = net.linear("a", x, 4), b = net.linear("b", x, 4);
  net.linear("tail", net.add("sum", a, b), 4);
  return std::move(net).finish();
}

std::vector<CutEdge> edges(std::initializer_list<std::array<std::size_t, 3>> from_to_tensor) {
  std::vector<CutEdge> list;
  for (const auto& [from, to, tensor] : from_to_tensor)
    list.push_back({TensorId(tensor), StageId(from), StageId(to), {}, {}});
  return list;
}

TEST(CutEdges, AnEdgeForEveryReadingStage) {
  const Graph graph = diamond();
  // {x}, {a}, {b, sum}, {tail}: x goes to two stages, a joins b's.
  EXPECT_EQ(cut_edges(graph, {stage_of(0, 0, 1), stage_of(1, 1, 2), stage_of(2, 2, 4), stage_of(3, 4, 5)}),
            edges({{0, 1, 0}, {0, 2, 0}, {1, 2, 1}, {2, 3, 3}}));
}

TEST(CutEdges, TwoReadersInOneStageAreOneEdge) {
  EXPECT_EQ(cut_edges(diamond(), {stage_of(0, 0, 1), stage_of(1, 1, 5)}), edges({{0, 1, 0}}));
}

TEST(CutEdges, OneStageCutsNothing) { EXPECT_TRUE(cut_edges(diamond(), {stage_of(0, 0, 5)}).empty()); }

TEST(CutEdges, SortedByStagesThenTensor) {
  // {x, a}, {b}, {sum, tail}: x to 1, a to 2, b to 2.
  EXPECT_EQ(cut_edges(diamond(), {stage_of(0, 0, 2), stage_of(1, 2, 3), stage_of(2, 3, 5)}),
            edges({{0, 1, 0}, {0, 2, 1}, {1, 2, 2}}));
}

/// All pairs of producer and reader on different stages, found op by op.
TEST(CutEdges, AgreeWithTheNaiveOnesOnRandomGraphs) {
  std::mt19937_64 random(3);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Graph graph = branching_graph(12, seed);
    std::vector<Stage> stages = {stage_of(0, 0, 1)};
    for (std::size_t op = 1; op < graph.ops.size(); ++op) {
      if (random() % 4 == 0) stages.push_back(stage_of(stages.size(), 0, 0));
      stages.back().ops.emplace_back(op);
    }
    std::set<std::array<std::size_t, 3>> naive;
    const auto stage_with = [&](OpId op) {
      return static_cast<std::size_t>(
          std::ranges::find_if(stages, [&](const Stage& stage) { return std::ranges::count(stage.ops, op) > 0; }) -
          stages.begin());
    };
    for (std::size_t op = 0; op < graph.ops.size(); ++op)
      for (const TensorId tensor : graph.ops[op].inputs)
        if (const auto from = stage_with(graph.tensor(tensor).producer), to = stage_with(OpId(op)); from != to)
          naive.insert({from, to, tensor.index()});
    std::vector<CutEdge> expected;
    for (const auto& [from, to, tensor] : naive)
      expected.push_back({TensorId(tensor), StageId(from), StageId(to), {}, {}});
    EXPECT_EQ(cut_edges(graph, stages), expected) << seed;
  }
}

class ValidateTest : public testing::Test {
 protected:
  void SetUp() override { validate(schedule, graph, platform, "ok.json"); }

  std::string fault() const {
    try {
      validate(schedule, graph, platform, "plan.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  Graph graph = diamond();
  Platform platform = star_platform({1, 1, 1, 1}, BytesPerSecond(1));
  Schedule schedule = schedule_of(graph, {stage_of(2, 0, 2), stage_of(0, 2, 3), stage_of(1, 3, 5)});
};

TEST_F(ValidateTest, NoStages) {
  schedule.stages.clear();
  schedule.edges.clear();
  EXPECT_THAT(fault(), HasSubstr("plan.json: stages: there are none"));
}

TEST_F(ValidateTest, MicroBatches) {
  for (const int count : {0, -1, max_micro_batches + 1, std::numeric_limits<int>::min()}) {
    schedule.micro_batches = count;
    EXPECT_THAT(fault(), HasSubstr("micro_batches: " + std::to_string(count) + " is not from 1 to 65535"));
  }
}

TEST_F(ValidateTest, DeviceThatDoesNotExist) {
  schedule.stages[1].device = DeviceId(4);
  EXPECT_THAT(fault(), HasSubstr("stages[1].device: device 4 does not exist; star has 4"));
}

TEST_F(ValidateTest, DeviceTwice) {
  schedule.stages[2].device = DeviceId(2);
  EXPECT_THAT(fault(), HasSubstr("stages[2].device: d2 already runs stage 0"));
}

TEST_F(ValidateTest, EmptyStage) {
  schedule.stages.push_back(stage_of(3, 0, 0));
  EXPECT_THAT(fault(), HasSubstr("stages[3].ops: the stage has none"));
}

TEST_F(ValidateTest, OpInNoStage) {
  schedule.stages[1].ops.clear();
  schedule.stages[1].ops.emplace_back(std::size_t{2});
  schedule.stages[2].ops.pop_back();
  EXPECT_THAT(fault(), HasSubstr("1 op is in no stage: \"tail\""));
}

TEST_F(ValidateTest, OpInTwoStages) {
  schedule.stages[1].ops.insert(schedule.stages[1].ops.begin(), OpId(std::size_t{1}));
  EXPECT_THAT(fault(), HasSubstr("stages[1].ops: op \"a\" is in stage 0 already"));
}

TEST_F(ValidateTest, OpTwiceInOneStage) {
  schedule.stages[0].ops.emplace_back(std::size_t{1});
  EXPECT_THAT(fault(), HasSubstr("op \"a\" is in stage 0 already"));
}

TEST_F(ValidateTest, OpThatDoesNotExist) {
  schedule.stages[2].ops.emplace_back(std::size_t{5});
  EXPECT_THAT(fault(), HasSubstr("op 5 does not exist; diamond has 5"));
}

TEST_F(ValidateTest, OpsOutOfOrder) {
  std::ranges::reverse(schedule.stages[2].ops);
  EXPECT_THAT(fault(), HasSubstr("op \"sum\" comes before \"tail\""));
}

TEST_F(ValidateTest, TensorThatGoesBack) {
  std::swap(schedule.stages[0], schedule.stages[2]);
  EXPECT_THAT(fault(), HasSubstr("would go back from stage"));
}

// {x, sum, tail} around {a, b}: the path x -> a -> sum leaves the stage and comes back, so it is not convex.
TEST_F(ValidateTest, StageThatIsNotConvex) {
  schedule = schedule_of(graph, {stage_of(0, 0, 1), stage_of(1, 1, 3)});
  for (const std::size_t op : {3, 4}) schedule.stages[0].ops.emplace_back(op);
  schedule.edges = cut_edges(graph, schedule.stages);
  EXPECT_THAT(fault(), HasSubstr("would go back from stage 1 to stage 0"));
}

TEST_F(ValidateTest, EdgeMissing) {
  for (std::size_t i = 0; i < schedule.edges.size(); ++i) {
    const auto kept = schedule.edges;
    schedule.edges.erase(schedule.edges.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(fault(), HasSubstr("no edge says how it travels")) << i;
    schedule.edges = kept;
  }
}

TEST_F(ValidateTest, EdgeTooMany) {
  for (const CutEdge& extra :
       {CutEdge{TensorId(std::size_t{3}), StageId(std::size_t{1}), StageId(std::size_t{2}), {}, {}},
        CutEdge{TensorId(std::size_t{99}), StageId(std::size_t{2}), StageId(std::size_t{9}), {}, {}}}) {
    schedule.edges.push_back(extra);
    EXPECT_THAT(fault(), HasSubstr("edges[3]: the stages don't cut tensor"));
    schedule.edges.pop_back();
  }
}

TEST_F(ValidateTest, EdgeTwiceOrOutOfOrder) {
  schedule.edges.push_back(schedule.edges.back());
  EXPECT_NE(fault(), "");
  schedule.edges.pop_back();
  std::swap(schedule.edges[0], schedule.edges[1]);
  EXPECT_NE(fault(), "");
}

TEST_F(ValidateTest, RatioThatIsNone) {
  for (const double ratio :
       {0.0, 0.99, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    schedule.edges[1].gradient = {CodecKind::topk, ratio};
    EXPECT_THAT(fault(), HasSubstr("edges[1].gradient")) << ratio;
  }
  schedule.edges[1].gradient = {CodecKind::fp16, 2};
  EXPECT_THAT(fault(), HasSubstr("edges[1].gradient"));
}

TEST_F(ValidateTest, GradientOfWhatHasNone) {
  schedule.edges[0].gradient = {CodecKind::fp16};  // x, an input
  EXPECT_THAT(fault(), HasSubstr("edges[0].gradient: fp16 can't be used: the tensor has no gradient"));
}

TEST(Validate, CodecOfIntegers) {
  const Graph graph = tied_graph(2);
  // tokens alone on a device of their own, so that they are cut.
  std::vector<Stage> stages = {stage_of(0, 0, 1), stage_of(1, 1, graph.ops.size())};
  Schedule schedule = schedule_of(graph, stages);
  const Platform platform = star_platform({1, 1}, BytesPerSecond(1));
  ASSERT_EQ(schedule.edges.size(), 1u);
  validate(schedule, graph, platform, "plan.json");
  schedule.edges[0].activation = {CodecKind::int8};
  EXPECT_THROW(validate(schedule, graph, platform, "plan.json"), InputError);
}

}  // namespace
}  // namespace fusion
