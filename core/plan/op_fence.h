// OP-Fence, our reading of FusionLLM (arXiv 2410.12707): put the cuts of the OP-DAG where the network can bear them.
//
//   1. cluster    Louvain communities of the bandwidth graph, at several resolutions            louvain.h
//   2. order      shortest open paths through clusters and through the devices inside them      device_order.h
//   3. partition  for each order the cuts of least iteration time: slow links get the smallest
//                 tensors ("the fence"), devices at the ends of an order may stay idle          partition.h
//   4. improve    drop, swap, move, replace and insert devices, cutting anew each time          op_fence_planner.h
//   5. refine     single units and devices, judged by the real objective                        op_fence_refine.h
//
// Steps 1 to 4 work on estimates. What they come up with is judged by predict() after the compression in use, together
// with the placements of the other policies: op-fence is never worse than them by that measure. On few devices every
// order is tried in place of 1 and 2, and small problems are solved outright (exact.h). The effort is bounded and the
// result deterministic.
#pragma once

#include <vector>

#include "core/plan/policies.h"

namespace fusion {

/// Throws Infeasible where no placement that it finds fits, naming the memory that the nearest one lacks.
std::vector<Stage> op_fence(const PolicyInput&);

}  // namespace fusion
