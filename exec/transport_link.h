// The time that a message takes on a link that a transport pretends to have.
#pragma once

#include <algorithm>
#include <optional>

#include "exec/transport.h"

namespace fusion::exec {

/// When a message is on its link: from `start` to `released`; it arrives after the latency, which occupies nothing.
struct Passage {
  Seconds start{}, released{}, arrived{};
  bool operator==(const Passage&) const = default;
};

/// One directed pair: start = max(now, last release), released = start + bytes / bandwidth, arrived = released +
/// latency. Without a shape all three are `now`.
class ShapedLink {
 public:
  ShapedLink() = default;
  explicit ShapedLink(std::optional<LinkShape> shape) : shape_(shape) {}

  bool shaped() const { return shape_.has_value(); }
  Passage pass(Seconds now, Bytes bytes) {
    if (!shape_) return {now, now, now};
    const Seconds start = std::max(now, free_);
    free_ = start + bytes / shape_->bandwidth;
    return {start, free_, free_ + shape_->latency};
  }

 private:
  std::optional<LinkShape> shape_;
  Seconds free_{};
};

/// Links of one sender, by receiver. Precondition: `shapes` is empty (no link is shaped) or has a row per rank.
std::vector<ShapedLink> links_from(int rank, int num_ranks, const LinkShapes& shapes);

}  // namespace fusion::exec
