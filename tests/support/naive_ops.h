// Every op kind from its definition, in double and in plain loops: what backends are compared with.
#pragma once

#include <span>
#include <vector>

#include "core/graph/ops.h"

namespace fusion {

using Doubles = std::vector<double>;

/// Outputs of op `id` from its inputs (token ids and labels as doubles too) and parameters, row-major. `mask` holds the
/// factors of a dropout.
std::vector<Doubles> naive_forward(const Graph&, OpId id, const std::vector<Doubles>& inputs,
                                   const std::vector<Doubles>& parameters, std::span<const float> mask = {});

}  // namespace fusion
