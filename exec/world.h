// Where the ranks of this run are: processes under mpirun, or threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/execute.h"

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
  /// Under a launcher, joins the other processes: collective.
  explicit World(const Work&);

  bool is_first() const { return transport_ == nullptr || transport_->rank() == 0; }
  std::string engine() const { return transport_ == nullptr ? "threads" : "mpi"; }

  /// Runs this process's ranks to the end; the result is that of rank 0 where this process has it. What `options`
  /// throws ends the other ranks too. Throws InputError where the ranks do not run the same thing, or are not as many
  /// as the program has devices.
  RankResult run(const std::function<TrainOptions()>& options);

 private:
  const Work& work_;
  std::unique_ptr<Transport> transport_;  ///< nothing: threads
};

}  // namespace fusion::exec
