// How a plan is started on its machines: mpirun's line, its hostfile, a script for Slurm.
#pragma once

#include <string>
#include <vector>

namespace fusion::exec {

struct Launch {
  std::string program;                 ///< fusion-exec, at the same path on every machine
  std::vector<std::string> arguments;  ///< "train", "--plan", …
  std::size_t num_ranks = 1;
  std::vector<std::string> hosts;  ///< one per rank, in the order of the plan's devices; empty: all on this machine
  std::size_t cores = 1;           ///< of a host
  std::string directory;           ///< where the scripts go first: relative paths count from there
  std::string interface;           ///< network interface of the data; empty: whatever MPI finds
  long timeout_s = 86'400;         ///< mpirun ends the run after that
  bool as_root = false;
};

/// The whole line, quoted for a shell. `hostfile` is left out where all ranks are on this machine.
std::string mpirun_line(const Launch&, const std::string& hostfile);
/// A line per rank: mpirun takes line by line (--map-by seq).
std::string hostfile_of(const Launch&);
/// A shell script with that line; what it is called with goes on to fusion-exec.
std::string run_script(const Launch&, const std::string& hostfile);
/// The same for sbatch: Slurm warns the run two minutes before mpirun's time is up (half the time before, where that is
/// less), so that it ends with a checkpoint. Without hosts, Slurm chooses them; else it is asked for these, and the
/// script makes the hostfile, a line per rank.
std::string sbatch_script(const Launch&);

/// What would make a run slow or fragile, one line each: reference BLAS, more ranks than cores without
/// mpi_yield_when_idle, several machines without a pinned interface. Looks at this process and its environment.
std::vector<std::string> preflight();
/// The same for a run to come.
std::vector<std::string> preflight(const Launch&);

}  // namespace fusion::exec
