// What --compress says: a row for both directions, "adatopk:100", or one for activations and one for gradients,
// "int8/adatopk:100". Each row then decides for both directions, and one of them is taken. Policies place for the
// first.
#pragma once

#include <optional>

#include "core/plan/plan.h"

namespace fusion {

struct CompressionPair {
  Compression activations;
  std::optional<Compression> gradients;  ///< absent: as activations
};

/// Throws std::invalid_argument as parse_compression does.
CompressionPair parse_compression_pair(std::string_view);
std::string to_string(const CompressionPair&);

/// Sets `activation` and `gradient` of every edge of the schedule.
void compress_edges(Schedule&, const CompressionPair&, const Graph&, const Costs&, const Platform&);

/// Decides the codecs of a plan's edges anew, on the placement that it has. Throws InputError for `compress`,
/// Infeasible.
void recompress(Plan&, const std::string& compress);

}  // namespace fusion
