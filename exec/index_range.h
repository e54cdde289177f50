// Token ids and labels index tables: checked before they do.
#pragma once

#include <cstdint>
#include <span>

#include "core/graph/graph.h"

namespace fusion::exec {

/// Throws RuntimeFault naming the op, the value and its place unless all are in [0, bound).
void require_indices(const Op&, std::span<const std::int64_t> values, std::int64_t bound);

}  // namespace fusion::exec
