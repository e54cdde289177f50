// The baseline of the simulator's benchmark: the same activities in the same order on a bare heap of events. Every
// message gets its route's bandwidth, links are not shared; what SimGrid costs beyond this is the price of its models.
#pragma once

#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion::bench {

/// The iteration time. Exact where no two messages share a link.
Seconds run_on_heap(const Program&, const Platform&);

}  // namespace fusion::bench
