// What an edge is coded with in each step of a run, and the stretches of steps that are alike.
#include "core/plan/codec_course.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace fusion {
namespace {

const Codec topk{CodecKind::topk, 100};

TEST(CodecCourse, WithoutSettingsIsThePlan) {
  for (const std::int64_t step : {0, 1, 1000}) EXPECT_EQ(codec_at(topk, {}, step), topk);
  EXPECT_EQ(spans_of({}, 1000), (std::vector<CourseSpan>{{0, 1000}}));
  EXPECT_TRUE(spans_of({}, 0).empty());
}

TEST(CodecCourse, FirstStepsAreDenseForEveryCodec) {
  const CodecCourse course{.after = 3};
  for (const Codec codec : {topk, Codec{CodecKind::int8}}) {
    EXPECT_EQ(codec_at(codec, course, 2), Codec{});
    EXPECT_EQ(codec_at(codec, course, 3), codec);
  }
  EXPECT_EQ(spans_of(course, 10), (std::vector<CourseSpan>{{0, 3}, {3, 10}}));
  EXPECT_EQ(spans_of(course, 2), (std::vector<CourseSpan>{{0, 2}}));
}

// 16 steps of warm-up are eight levels of two steps; level l is 100^(l / 9).
TEST(CodecCourse, RatioGrowsGeometrically) {
  const CodecCourse course{.after = 4, .warmup = 16};
  for (std::int64_t step = 4; step < 20; ++step) {
    const double level = static_cast<double>((step - 4) / 2 + 1);
    EXPECT_DOUBLE_EQ(codec_at(topk, course, step).ratio, std::pow(100, level / 9)) << step;
  }
  EXPECT_EQ(codec_at(topk, course, 20), topk);
  EXPECT_EQ(codec_at(Codec{CodecKind::int8}, course, 5), Codec{CodecKind::int8});  // a dense codec has no ratio
}

/// For every course, spans are what a walk over all steps finds.
TEST(CodecCourse, SpansAreTheStepsThatAreAlike) {
  for (const std::int64_t after : {0, 1, 5})
    for (const std::int64_t warmup : {0, 1, 3, 8, 20})
      for (const std::int64_t steps : {1, 4, 9, 40}) {
        const CodecCourse course{.after = after, .warmup = warmup};
        std::vector<CourseSpan> naive;
        for (std::int64_t step = 0; step < steps; ++step) {
          if (step == 0 || codec_at(topk, course, step) != codec_at(topk, course, step - 1))
            naive.push_back({step, step});
          naive.back().end = step + 1;
        }
        EXPECT_EQ(spans_of(course, steps), naive) << after << ' ' << warmup << ' ' << steps;
      }
}

TEST(CodecCourse, ChangesEveryEdgeOfASchedule) {
  Schedule schedule;
  schedule.edges = {{TensorId(0), StageId(0), StageId(1), topk, Codec{CodecKind::int8}}};
  const CodecCourse course{.after = 1};
  EXPECT_EQ(schedule_at(schedule, course, 1), schedule);
  const Schedule dense = schedule_at(schedule, course, 0);
  EXPECT_EQ(dense.edges[0].activation, Codec{});
  EXPECT_EQ(dense.edges[0].gradient, Codec{});
}

TEST(CodecCourse, FeedbackByName) {
  EXPECT_EQ(parse_feedback("none"), Feedback::none);
  EXPECT_EQ(parse_feedback("gradients"), Feedback::gradients);
  EXPECT_EQ(parse_feedback("all"), Feedback::all);
  EXPECT_THROW(parse_feedback("gradient"), std::invalid_argument);
}

}  // namespace
}  // namespace fusion
