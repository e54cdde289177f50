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

/// How long a transfer occupies its narrowest link per micro-batch, and what it adds to the fill.
struct TransferTime {
  double busy_s, fill_s;
};

/// Under a bound: dense where that keeps it; else it shrinks just as far as the bound asks; infinite where even all the
/// relief does not help.
inline TransferTime transfer(double bytes, const Direction& way, double relief, double bound_s) {
  if (bytes <= 0) return {0, 0};
  const double dense_s = bytes * way.s_per_byte, busy_s = dense_s * way.contention;
  if (busy_s <= bound_s) return {busy_s, dense_s + way.latency_s};
  if (busy_s / relief <= bound_s) return {bound_s, bound_s / way.contention + way.latency_s};
  return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
}

/// The boundary at `cut`: the busier direction, and the sum of both.
inline TransferTime crossing(const Line& line, const Hop& hop, std::size_t cut, double relief, double bound_s) {
  const TransferTime out = transfer(line.forward_bytes[cut], hop.forward, relief, bound_s);
  const TransferTime back = transfer(line.backward_bytes[cut], hop.backward, relief, bound_s);
  return {std::max(out.busy_s, back.busy_s), out.fill_s + back.fill_s};
}
inline double busy_s(const Line& line, const Hop& hop, std::size_t cut) {
  return std::max(line.forward_bytes[cut] * hop.forward.s_per_byte * hop.forward.contention,
                  line.backward_bytes[cut] * hop.backward.s_per_byte * hop.backward.contention);
}

}  // namespace fusion::partition_detail
