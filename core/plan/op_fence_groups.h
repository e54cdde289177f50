// Data-parallel groups the way of op-fence, judged by DT-FM's cost model (dt_fm.h): look at how the network is built
// before any trial.
//
//   1. clusters   devices that reach each other at each distinct price or below, from the nearest to all
//   2. starts     per clustering: every cluster spread over as many groups as it has devices, so that pipelines stay
//                 inside clusters; or kept together, so that data parallelism does
//   3. improve    swaps of two devices that differ in what they reach, while the score can still fall
//
// Devices that reach all others alike are one and the same to it.
#pragma once

#include "core/plan/dt_fm.h"

namespace fusion {

struct FenceGroupsOptions {
  std::size_t max_evaluations = 490;  ///< a tenth of what DT-FM's scheduler takes
  std::uint64_t seed = 1;             ///< of the order in which swaps are tried
};
DtFmSearch op_fence_groups(const DtFmPrices&, const FenceGroupsOptions& = {});

}  // namespace fusion
