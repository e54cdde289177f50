// All of a walk that the rest of it depends on, between two steps.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/engine/growing_time.h"
#include "core/engine/pending_times.h"
#include "core/engine/walk_graph.h"

namespace fusion {

struct Walker {
  static constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();

  StepList::Iterator next;
  Time free{};                       ///< when the step before has left
  std::uint32_t waits_on = nothing;  ///< edge
  std::uint32_t sweep = 0;           ///< the last one in which it began a round …
  std::uint32_t rounds_begun = 0;    ///< … and how many in that sweep
};

/// Time with a message on the way: the union of the spans from start to arrival, which come in the order of arrival.
struct ChannelTime {
  double busy_s = 0;
  Time last_arrival{};
};

struct WalkMoment {
  std::vector<Walker> walkers;  ///< devices, then lanes
  PendingTimes pending;
  std::vector<ChannelTime> channels;
  std::vector<double> device_busy_s;
};
WalkMoment start_of(const Program&, const WalkGraph&);

/// A moment as lists of numbers, in a fixed order.
struct WalkState {
  std::vector<double> times_s;        ///< of walkers, edges, channels
  std::vector<double> growth_s;       ///< of each, as it stands beside it
  std::vector<double> sums_s;         ///< busy times of channels and devices
  std::vector<std::uint32_t> counts;  ///< rounds begun by walkers; instances taken from edges; modulo 2^32
  std::vector<std::uint32_t> shape;   ///< what else there is: where in their round the walkers are, what edges hold
};
WalkState read(WalkMoment&);

/// For how many periods the walkers can begin so many rounds more (by walker) in the blocks that they are in.
std::uint32_t periods_of_room(const WalkMoment&, const std::vector<std::uint32_t>& rounds);

/// Puts a growth beside each time.
void set_growth(WalkMoment&, const std::vector<double>& growth_s);

/// So many periods later, each of which adds `change` to times, sums and counts. Growth is 0 again.
void skip(WalkMoment&, const WalkState& change, std::uint32_t periods);

/// The same where all times grow alike: those of walkers and channels that `change` moves, and on edges that it moves.
/// The moment may be at any point of the period.
void skip_alike(WalkMoment&, const WalkState& change, double growth_s, std::uint32_t periods);

}  // namespace fusion
