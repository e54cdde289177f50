// Initial values of parameters: the same bits on whatever rank, machine and framework a parameter lives.
#pragma once

#include <cstdint>
#include <span>

#include "core/graph/graph.h"

namespace fusion::exec {

/// Fills a parameter from a generator seeded with (seed, name): the same bits on whatever rank, machine and backend it
/// lives. What it gets follows from its name and its first user:
///   a bias                     0
///   the weight of a norm       1
///   convolutions, and linear layers of a network without attention: standard deviation sqrt(2 / fan in) (He 2015)
///   embeddings, and linear layers of one with attention: 0.02, and 0.02 / sqrt(2 L) for those that end in a residual
///   sum ("c_proj", "o_proj", "down_proj"), L being the attention ops (GPT-2)
/// Draws are sums of twelve uniform integers (Irwin-Hall), near a normal up to 6 deviations and free of libm.
void initialize_parameter(const Graph&, ParameterId, std::uint64_t seed, std::span<float> values);

}  // namespace fusion::exec
