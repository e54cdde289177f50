// Which elements dropout keeps: the same on every rank, machine and framework.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/backend.h"

namespace fusion::exec {

/// One factor per element of the op's output: 0 with probability `rate`, else 1 / (1 - rate). Follows from seed, step,
/// micro-batch and the op's id alone.
std::vector<float> dropout_mask(const RunSeed&, int micro_batch, OpId, double rate, std::size_t elements);

}  // namespace fusion::exec
