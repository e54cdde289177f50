// Reads the [matrix] of a platform file.
#pragma once

#include "core/base/toml_file.h"
#include "core/platform/platform.h"

namespace fusion {

/// Adds the matrix and its links to a platform whose sites, hosts and devices are complete.
void read_matrix(const TomlTable&, Platform&);

}  // namespace fusion
