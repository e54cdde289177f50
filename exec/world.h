// Where the ranks of this run are: processes under mpirun, or threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/execute.h"
#include "exec/transport_start.h"

namespace fusion::exec {

/// What all ranks of a run need. `open_data` opens the data set, which is asked only where a rank needs it.
struct Work {
  const Program& program;
  const Graph& graph;
  std::vector<const BackendRow*> backends;  ///< by rank
  std::function<std::unique_ptr<DataSet>()> open_data;
  LinkShapes shapes;
};

class World {
 public:
  /// Under a launcher, joins the other processes: collective, and the first that a rank does, so that what goes wrong
  /// later is known to all. How long that may take, and a rank be silent, is in the options.
  explicit World(const StartOptions&);

  bool is_first() const { return transport_ == nullptr || transport_->rank() == 0; }
  std::string engine() const { return transport_ == nullptr ? "threads" : "mpi"; }

  /// What it throws ends the other ranks too, with the same exit code; where all throw alike, the first of them throws
  /// it on and the others ToldByPeer, so that the user reads it once.
  void together(const std::function<void()>&);

  /// Within `together`: runs this process's ranks to the end; the result is that of rank 0 where this process has it.
  /// Throws InputError where the ranks do not run the same thing, or are not as many as the program has devices.
  RankResult run(const Work&, const std::function<TrainOptions()>& options);

 private:
  std::unique_ptr<Transport> transport_;  ///< nothing: threads
};

}  // namespace fusion::exec
