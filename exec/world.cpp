#include "exec/world.h"

#include "core/base/error.h"
#include "exec/execute_threads.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {

World::World(const Work& work) : work_(work) {
  if (!launched_by_mpi()) return;
  transport_ = make_mpi_transport({.shapes = work.shapes});
  const auto devices = static_cast<int>(work.program.devices.size());
  if (transport_->num_ranks() != devices)
    throw InputError(work.program.info.model, "devices",
                     "the plan uses " + std::to_string(devices) + " devices; start " + std::to_string(devices) +
                         " processes (mpirun -np " + std::to_string(devices) + "), not " +
                         std::to_string(transport_->num_ranks()));
}

RankResult World::run(const TrainOptions& options) {
  const auto& [program, graph, backends, open_data, shapes] = work_;
  if (transport_ == nullptr) {
    const std::unique_ptr<DataSet> data = open_data();
    return std::move(execute_threads(program, graph, backends, data.get(), options, shapes).front());
  }
  const int rank = transport_->rank();
  return run_or_abort(*transport_, [&] {
    const std::unique_ptr<DataSet> data = needs_data(program, graph, rank) ? open_data() : nullptr;
    return execute(program, graph, *transport_, *backends[static_cast<std::size_t>(rank)], data.get(), options);
  });
}

}  // namespace fusion::exec
