#include "exec/world.h"

#include "exec/ending.h"
#include "exec/execute_threads.h"
#include "exec/handshake.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {

World::World(const StartOptions& start) {
  if (!launched_by_mpi()) return;
  transport_ = make_mpi_transport({.shapes = {}, .start = start});
  transport_->begin_work("loading the plan", {});
}

void World::together(const std::function<void()>& work) {
  if (transport_ == nullptr) return work();
  run_or_abort(*transport_, work);
}

RankResult World::run(const Work& work, const std::function<TrainOptions()>& options) {
  const auto& [program, graph, backends, open_data, shapes] = work;
  if (transport_ == nullptr) {
    const std::unique_ptr<DataSet> data = open_data();
    return std::move(execute_threads(program, graph, backends, data.get(), options(), shapes).front());
  }
  transport_->end_work();
  handshake(*transport_, identity_of(program, graph));
  transport_->shape(shapes);
  transport_->begin_work("opening the data", {});
  const int rank = transport_->rank();
  const std::unique_ptr<DataSet> data = needs_data(program, graph, rank) ? open_data() : nullptr;
  transport_->end_work();
  return execute(program, graph, *transport_, *backends[static_cast<std::size_t>(rank)], data.get(), options());
}

}  // namespace fusion::exec
