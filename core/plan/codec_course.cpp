#include "core/plan/codec_course.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/names.h"

namespace fusion {
namespace {

struct FeedbackRow {
  std::string_view name;
  Feedback feedback;
};
constexpr std::array feedback_rows = {FeedbackRow{"none", Feedback::none},
                                      FeedbackRow{"gradients", Feedback::gradients}, FeedbackRow{"all", Feedback::all}};

struct TopkOverRow {
  std::string_view name;
  TopkOver over;
};
constexpr std::array topk_over_rows = {TopkOverRow{"tensor", TopkOver::tensor}, TopkOverRow{"rows", TopkOver::rows}};

/// 0: everything as it is; then the levels of the warm-up; warmup_levels + 1: full strength.
std::int64_t level_at(const CodecCourse& course, std::int64_t step) {
  if (step < course.after) return 0;
  const std::int64_t of_warmup = step - course.after;
  if (of_warmup >= course.warmup) return warmup_levels + 1;
  return 1 + of_warmup * warmup_levels / course.warmup;
}

}  // namespace

Feedback parse_feedback(std::string_view name) { return row_named(feedback_rows, name).feedback; }

TopkOver parse_topk_over(std::string_view name) { return row_named(topk_over_rows, name).over; }

std::uint64_t topk_rows(TopkOver over, const Shape& shape) {
  if (over == TopkOver::tensor || shape.empty() || shape.front() == 0) return 1;
  constexpr std::size_t tokens_by_features = 3;
  return static_cast<std::uint64_t>(shape.size() == tokens_by_features ? shape[0] * shape[1] : shape[0]);
}

Codec codec_at(Codec codec, const CodecCourse& course, std::int64_t step) {
  const std::int64_t level = level_at(course, step);
  if (level == 0) return {};
  if (level <= warmup_levels)
    codec.ratio = std::pow(codec.ratio, static_cast<double>(level) / static_cast<double>(warmup_levels + 1));
  return codec;
}

Schedule schedule_at(Schedule schedule, const CodecCourse& course, std::int64_t step) {
  for (CutEdge& edge : schedule.edges) {
    edge.activation = codec_at(edge.activation, course, step);
    edge.gradient = codec_at(edge.gradient, course, step);
  }
  return schedule;
}

std::vector<CourseSpan> spans_of(const CodecCourse& course, std::int64_t steps) {
  std::vector<CourseSpan> spans;
  for (std::int64_t step = 0; step < steps; ++step) {
    const bool alike = step > 0 && level_at(course, step) == level_at(course, step - 1);
    if (!alike) spans.push_back({step, step});
    spans.back().end = step + 1;
    if (step >= course.after + course.warmup) spans.back().end = steps;
    if (spans.back().end == steps) break;
  }
  return spans;
}

}  // namespace fusion
