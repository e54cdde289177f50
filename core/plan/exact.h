// The best placement there is, for small problems: branch and bound over all ways to cut the OP-DAG into convex parts
// in pipeline order, whether they are intervals of one order or not, and all choices of a device for each.
//
// The objective is predict(), as for every policy: what the gap of the others is measured in. A partial placement is
// left when even the best continuation is no better than the best whole one so far. Its bound is that of predict() with
// what is open at its best: ops on the fastest device that is left, work spread evenly over those, messages at the
// smallest size the compression could give them on the nearest device, one micro-batch less in flight than there may
// be.
#pragma once

#include <cstddef>
#include <optional>

#include "core/plan/op_fence_judge.h"

namespace fusion {

inline constexpr std::size_t max_bounded_units = 64;

/// How many placements cut a line of this many units for this many devices: what limits `exact`. Infinite where that is
/// beyond counting.
double num_line_placements(std::size_t num_units, std::size_t num_devices);

struct BranchAndBound {
  std::optional<Judged> best;  ///< fits; empty where nothing does (or nothing was found)
  bool complete = false;       ///< all was looked at or bounded: `best` is the optimum
  std::size_t num_nodes = 0;   ///< stages put on devices
};
/// From a placement to beat, if there is one, until all is done or `max_nodes` are used up. Deterministic.
/// Precondition: at most max_bounded_units units.
BranchAndBound branch_and_bound(const PolicyInput&, std::optional<Judged> start, std::size_t max_nodes);

/// The policy `exact`. Throws Infeasible where nothing fits, and where the problem is too large: more than 10 million
/// placements of the line, more than 64 units, or 4 million nodes that don't suffice.
std::vector<Stage> exact(const PolicyInput&);

}  // namespace fusion
