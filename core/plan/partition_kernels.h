// What the two partition algorithms share: the price of a cut and the memory of a part, split into what its start and
// what its end contribute. Not for others to include.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/plan/partition.h"

namespace fusion::partition_detail {

/// Memory of units [begin, end) is at_end(end) - at_start(begin).
struct MemoryTerms {
  const Line& line;
  double in_flight, kept_factor;

  MemoryTerms(const Line& l, const Seat& seat)
      : line(l), in_flight(seat.in_flight), kept_factor(l.recompute ? 1 : seat.in_flight) {}

  double stored(std::size_t cut) const { return line.resident_bytes[cut] + kept_factor * line.kept_bytes[cut]; }
  double at_end(std::size_t cut) const { return stored(cut) + line.buffer_bytes[cut]; }
  double at_start(std::size_t cut) const {
    return stored(cut) - in_flight * line.kept_at_start_bytes[cut] - line.buffer_bytes[cut];
  }
};

inline double forward_s(const Line& line, const Hop& hop, std::size_t cut) {
  return line.forward_bytes[cut] * hop.forward_s_per_byte;
}
inline double backward_s(const Line& line, const Hop& hop, std::size_t cut) {
  return line.backward_bytes[cut] * hop.backward_s_per_byte;
}

/// What a transfer occupies its channel for, under a bound: `dense_s` where that keeps it; else it shrinks just as far
/// as the bound asks; infinite where even all the relief does not help.
inline double within_bound_s(double dense_s, double relief, double bound_s) {
  if (dense_s <= bound_s) return dense_s;
  return dense_s / relief <= bound_s ? bound_s : std::numeric_limits<double>::infinity();
}

/// The boundary at `cut`: the busier direction, and what both add to the fill.
struct Crossing {
  double busy_s, fill_s;
};
inline Crossing crossing(const Line& line, const Hop& hop, std::size_t cut, double relief, double bound_s) {
  const double out_s = within_bound_s(forward_s(line, hop, cut), relief, bound_s);
  const double back_s = within_bound_s(backward_s(line, hop, cut), relief, bound_s);
  const double latency_s = (line.forward_bytes[cut] > 0 ? hop.forward_latency_s : 0) +
                           (line.backward_bytes[cut] > 0 ? hop.backward_latency_s : 0);
  return {std::max(out_s, back_s), out_s + back_s + latency_s};
}

}  // namespace fusion::partition_detail
