// Where to cut a line of units among devices whose order is given.
//
// The network stands in a topological order as a line of units; a part is an interval of it, so it is convex in the
// OP-DAG. Everything that the algorithms ask for is a difference of prefix sums, hence O(1):
//
//      unit      0     1     2     3     4
//      cut    0     1     2     3     4     5        part [1, 4) is units 1, 2, 3
//
// Two exact algorithms, for two objectives:
//
//   min_bottleneck   max over parts and transfers, every device used: the chain-on-chain problem (Bokhari 1988) with
//                    unequal devices in a fixed order (Pinar, Tabak, Aykanat 2008), transfers and memory added.
//                    Bisection over a yes-or-no question, O(P N) per question and less once the bounds of the cuts are
//                    tight.
//   min_fill         sum over parts and boundaries under a bound T on each of them: O(P N) by sliding-window minima.
//                    Tried for falling T it traces all trade-offs between the two terms of an iteration's time,
//                    fill + (m - 1) bottleneck (min_iteration).
//
// Inside the planner's numeric kernels quantities are doubles, suffixed _s (seconds) and _bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace fusion {

/// Costs of a line of N units. Vectors have N + 1 entries: by cut, or the sum over the units before a cut.
struct Line {
  std::vector<std::vector<double>> time_s;  ///< prefix sums, forward + backward, per speed class of devices
  std::vector<double> resident_bytes;       ///< prefix sums: parameters, gradients, optimizer state
  std::vector<double> kept_bytes;           ///< prefix sums: activations kept from forward to backward
  std::vector<double>
      kept_at_start_bytes;             ///< kept besides by the part that starts at a cut, per micro-batch in flight
  std::vector<double> forward_bytes;   ///< that cross a cut forward (activations), on the wire; 0 at both ends
  std::vector<double> backward_bytes;  ///< that cross it backward (gradients)
  std::vector<double> buffer_bytes;    ///< memory that a cut takes on each of its two devices
  bool recompute = false;              ///< `kept_bytes` live for one micro-batch at a time, not for each in flight

  std::size_t num_units() const { return resident_bytes.size() - 1; }
};

/// One device in the order, with what its place there decides.
struct Seat {
  std::size_t speed_class = 0;  ///< row of Line::time_s
  double memory_bytes = 0;
  double in_flight = 1;  ///< micro-batches whose activations it holds
};

/// From one device of the order to the next, and back. A transfer takes latency + bytes x s_per_byte and occupies its
/// channel for the second term (core/plan/traffic.h); where `contention` transfers like it share the narrowest link,
/// that link is occupied as many times as long.
struct Direction {
  double latency_s = 0, s_per_byte = 0, contention = 1;
};
struct Hop {
  Direction forward, backward;
};

/// Codecs that adapt can shrink what crosses a cut, up to `relief` times, where a bound asks for it. 1: never.
struct CutPricing {
  double relief = 1;
};

/// Devices in use and their parts: seat `seats[k]` has units [cuts[k], cuts[k + 1]).
struct Partition {
  std::vector<std::size_t> seats;  ///< ascending
  std::vector<std::size_t> cuts;
  double fill_s = 0;
  double bottleneck_s = 0;
  std::vector<double> round_trip_s;  ///< from each seat's part on through all that follow, and back
  bool operator==(const Partition&) const = default;
};

/// Fills in the times of given cuts: the sum of all parts and transfers, and the longest of them. Ignores memory.
/// Transfers that occupy their channel for longer than `bound_s` shrink to it, as far as `pricing` lets them.
Partition priced(const Line&, std::span<const Seat>, std::span<const Hop>, Partition, CutPricing pricing = {},
                 double bound_s = std::numeric_limits<double>::infinity());

/// Memory that a seat needs for units [begin, end).
double memory_bytes(const Line&, const Seat&, std::size_t begin, std::size_t end);

/// Least bottleneck with every seat used; exact to 1e-12. Needs seats <= units and a hop between neighbours.
/// Empty where nothing fits the memory.
std::optional<Partition> min_bottleneck(const Line&, std::span<const Seat>, std::span<const Hop>);

/// Least fill among those whose every part and transfer takes `bound_s` at most. Uses a run of neighbouring seats: any
/// may be the first; the last one is the last seat, or any where `may_stop_early`.
struct FillOptions {
  double bound_s = 0;
  CutPricing pricing;
  bool may_stop_early = false;
};
std::optional<Partition> min_fill(const Line&, std::span<const Seat>, std::span<const Hop>, const FillOptions&);

/// Least fill + (m - 1) bottleneck, or the least `score` where one is given, which may not be below the fill. The bound
/// falls to `step` (below 1) times the bottleneck found, until nothing fits. Without a score it is exact as `step`
/// nears 1, where pricing is constant.
struct IterationOptions {
  int micro_batches = 1;
  double step = 0.9;
  CutPricing pricing;
  bool may_stop_early = false;
  std::size_t max_bounds = 40;
  double first_bound_s = std::numeric_limits<double>::infinity();
  std::function<double(const Partition&)> score = {};
};
std::optional<Partition> min_iteration(const Line&, std::span<const Seat>, std::span<const Hop>,
                                       const IterationOptions&);

inline double iteration_s(const Partition& p, int micro_batches) {
  return p.fill_s + (micro_batches - 1) * p.bottleneck_s;
}

}  // namespace fusion
