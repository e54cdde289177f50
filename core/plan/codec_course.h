// How codecs are used over the steps of a training run. The plan says what an edge is coded with at full strength; the
// course, like the learning rate, belongs to the run: fusion-exec train follows it, fusion-sim simulate --steps takes
// the time of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/plan/schedule.h"

namespace fusion {

/// Whose error feedback is kept: what a message left out is added to the edge's next one, which carries other samples.
enum class Feedback : std::uint8_t { none, gradients, all };
/// "none", "gradients", "all". Throws std::invalid_argument with the nearest.
Feedback parse_feedback(std::string_view);

/// What top-k takes the largest elements of: the tensor, or each row by itself, so that no sample or token goes
/// without. Rows are tokens of [B, T, d], and samples of anything else; the bytes are the same.
enum class TopkOver : std::uint8_t { tensor, rows };
/// "tensor", "rows". Throws std::invalid_argument.
TopkOver parse_topk_over(std::string_view);
std::uint64_t topk_rows(TopkOver, const Shape&);

struct CodecCourse {
  std::int64_t after = 0;   ///< so many steps at the start send everything as it is
  std::int64_t warmup = 0;  ///< over so many steps from there the ratio of a sparse codec grows to its own
  Feedback feedback = Feedback::all;
  TopkOver over = TopkOver::tensor;
};

/// What stands for `codec` in step `step`, counted from 0. During the warm-up the ratio is a power of its own, in
/// `warmup_levels` levels of equally many steps: 100 goes 100^(1/9), 100^(2/9), …
Codec codec_at(Codec codec, const CodecCourse&, std::int64_t step);
inline constexpr std::int64_t warmup_levels = 8;

/// The schedule with the codecs of that step.
Schedule schedule_at(Schedule, const CodecCourse&, std::int64_t step);

/// Steps [first, end) whose codecs are alike, in order; together [0, steps).
struct CourseSpan {
  std::int64_t first = 0, end = 0;
  bool operator==(const CourseSpan&) const = default;
};
std::vector<CourseSpan> spans_of(const CodecCourse&, std::int64_t steps);

}  // namespace fusion
