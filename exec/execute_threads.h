// All ranks of a program as threads of this process.
#pragma once

#include <exception>
#include <functional>
#include <vector>

#include "exec/execute.h"

namespace fusion::exec {

/// One backend per rank. Throws what the first rank that failed threw.
std::vector<RankResult> execute_threads(const Program&, const Graph&, const std::vector<const BackendRow*>& backends,
                                        const DataSet* data, const TrainOptions&, const LinkShapes& = {});

}  // namespace fusion::exec
