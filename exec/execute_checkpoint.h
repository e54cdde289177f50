// A rank's share of a checkpoint, and how a run goes on from one that any number of ranks wrote.
#pragma once

#include "exec/execute_data.h"
#include "exec/execute_walk.h"

namespace fusion::exec {

/// Writes what this rank holds; the last rank to be done lets rank 0 complete the step. `steps` are done.
void write_step(Walk&, const Graph&, Council&, const TrainOptions&, const DataFacts&, std::int64_t steps);

/// The steps that are done: those of the newest complete checkpoint, whose values are taken over, or 0. The walk goes
/// on with the sample after those that were taken, also where a step takes more or fewer of them than before. Throws
/// InputError for a directory with steps without CheckpointOptions::resume, for a checkpoint of another model,
/// optimizer, seed or data set, and for one that lacks a parameter.
std::int64_t resume_step(Walk&, const Program&, const Graph&, const TrainOptions&, const DataFacts&, bool first_rank);

}  // namespace fusion::exec
