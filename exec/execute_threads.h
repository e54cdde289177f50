// All ranks of a program as threads of this process.
#pragma once

#include <vector>

#include "exec/execute.h"

namespace fusion::exec {

/// A transport ends others' waits when its own rank throws: what the rank's exception stands for, told to its peers.
/// Rethrows it.
RankResult execute_or_abort(const Program&, const Graph&, Transport&, const BackendRow&, const DataSet* data,
                            const TrainOptions&);

/// One backend per rank. Throws what the first rank that failed threw.
std::vector<RankResult> execute_threads(const Program&, const Graph&, const std::vector<const BackendRow*>& backends,
                                        const DataSet* data, const TrainOptions&, const LinkShapes& = {});

}  // namespace fusion::exec
