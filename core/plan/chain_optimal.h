// The exact bottleneck partition for a given order of devices.
#pragma once

#include <vector>

#include "core/plan/policies.h"

namespace fusion {

/// Devices in file order (the first of them where there are fewer units), each with at least one unit of the line in
/// file order, so that the busiest device or channel is busy for as short as any cuts of that line allow; memory
/// permitting. Exact where the network is a chain; where it branches, a tensor counts on every boundary that it passes.
/// Shared links are not looked at. Compression: what crosses a cut has its size under the codec in use; codecs that
/// adapt count as if they shrank every cut as far as they may. Throws Infeasible where no cuts fit the memory.
std::vector<Stage> chain_optimal(const PolicyInput&);

}  // namespace fusion
