// The network as a line of units, which contiguous placements cut. Any contiguous part of the line is convex in the
// OP-DAG, since the line is a topological order, and the parts in their order are a valid pipeline.
#pragma once

#include <span>
#include <vector>

#include "core/plan/schedule.h"

namespace fusion {

/// What a placement moves as one piece: an op that works, and the inputs and labels that it is the first to read. These
/// do no work and have no reason to be anywhere else: tokens come with the embedding, labels with the loss.
struct Unit {
  std::vector<OpId> ops;  ///< the working op last
};

/// The units in the graph's own order (file order), which is topological.
std::vector<Unit> linear_order(const Graph&);

/// Stage i on devices[i], with the units from bounds[i] to bounds[i + 1]. Bounds ascend strictly from 0 to
/// units.size().
std::vector<Stage> cut_line(std::span<const Unit> units, std::span<const std::size_t> bounds,
                            std::span<const DeviceId> devices);

}  // namespace fusion
