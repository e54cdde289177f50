#include "exec/world.h"

#include "exec/execute_threads.h"
#include "exec/handshake.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {

World::World(const Work& work) : work_(work) {
  if (launched_by_mpi()) transport_ = make_mpi_transport({.shapes = work.shapes});
}

RankResult World::run(const std::function<TrainOptions()>& options) {
  const auto& [program, graph, backends, open_data, shapes] = work_;
  if (transport_ == nullptr) {
    const std::unique_ptr<DataSet> data = open_data();
    return std::move(execute_threads(program, graph, backends, data.get(), options(), shapes).front());
  }
  return run_or_abort(*transport_, [&] {
    handshake(*transport_, identity_of(program, graph));
    const int rank = transport_->rank();
    const std::unique_ptr<DataSet> data = needs_data(program, graph, rank) ? open_data() : nullptr;
    const BackendRow& backend = *backends[static_cast<std::size_t>(rank)];
    return execute(program, graph, *transport_, backend, data.get(), options());
  });
}

}  // namespace fusion::exec
