// Which of the processes that mpirun or srun started this one is, from the environment; no MPI call is made.
#pragma once

namespace fusion::sim {

/// 0 where nothing started several.
int launch_rank();

/// The cores that this process may use, shared among those that mpirun started on this machine; at least 1.
int cores_per_process();

}  // namespace fusion::sim
