// Measured directed pairs, and the platform file that says the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/platform/import_export.h"

namespace fusion {

/// What one end gets to another when nothing else is sent.
struct MeasuredPair {
  std::string from, to;
  BytesPerSecond bandwidth{};
  Seconds latency{};
  std::string file;  ///< where it was read, for messages
  int line = 0;
};

/// A platform file with one site and one device for each end, in order of appearance, and a matrix of all pairs. A pair
/// of an end with itself says what two devices there get; either all ends have one or none. Throws InputError for a
/// pair that is missing or given twice, and for an unknown GPU.
std::string platform_text(std::span<const MeasuredPair>, const ImportOptions&);

}  // namespace fusion
