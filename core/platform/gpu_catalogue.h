// Reads GPU types, from the catalogue and from a platform file.
#pragma once

#include "core/base/toml_file.h"
#include "core/platform/platform.h"

namespace fusion {

/// One [[gpu]] table.
GpuType read_gpu(const TomlTable&);

/// The [[gpu]] tables of a file. Throws InputError on a name given twice.
std::vector<GpuType> read_gpus(const TomlTable& root);

}  // namespace fusion
