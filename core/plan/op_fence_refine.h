// The last step of op-fence: hill climbing on finished placements, every one judged by the real objective.
#pragma once

#include <cstddef>
#include <span>

#include "core/plan/linear_order.h"
#include "core/plan/op_fence_fleet.h"
#include "core/plan/op_fence_judge.h"

namespace fusion {

/// Moves single units over the boundaries of neighbouring stages (any unit that the DAG lets go, so parts need not stay
/// intervals of one order), swaps and replaces devices, merges a stage into its neighbour. Judges `max_judged`
/// placements at most; what is used of them is taken off.
Judged refine(const PolicyInput&, std::span<const Unit>, const std::vector<DeviceGroup>&, Judged start,
              std::size_t& max_judged);

}  // namespace fusion
