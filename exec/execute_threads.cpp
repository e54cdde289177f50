#include "exec/execute_threads.h"

#include <exception>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "exec/ending.h"
#include "exec/transport_threads.h"

namespace fusion::exec {

std::vector<RankResult> execute_threads(const Program& program, const Graph& graph,
                                        const std::vector<const BackendRow*>& backends, const DataSet* data,
                                        const TrainOptions& options, const LinkShapes& shapes) {
  check(backends.size() == program.devices.size(), "a backend per rank");
  auto transports = make_thread_transports(static_cast<int>(backends.size()), shapes);
  std::vector<RankResult> results(backends.size());
  std::exception_ptr first;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < backends.size(); ++rank)
      threads.emplace_back([&, rank] {
        const std::unique_ptr<Transport> transport = std::move(transports[rank]);
        try {
          run_or_abort(*transport,
                       [&] { results[rank] = execute(program, graph, *transport, *backends[rank], data, options); });
        } catch (const ToldByPeer&) {
        } catch (...) {
          const std::scoped_lock lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
  }
  if (first) std::rethrow_exception(first);
  return results;
}

}  // namespace fusion::exec
