// Reads what fusion-exec profile measured.
#pragma once

#include <filesystem>
#include <vector>

#include "core/platform/platform.h"

namespace fusion {

/// The ops of a profile.json, sorted by name. Throws InputError naming file, op and value.
std::vector<MeasuredOp> load_measured_ops(const std::filesystem::path&);

}  // namespace fusion
