#include "exec/backend.h"
#include "exec/initialize.h"

namespace fusion::exec {

ParameterStore make_store(const Graph& graph, const Part& part, std::uint64_t seed) {
  ParameterStore store;
  store.values.resize(graph.parameters.size());
  store.gradients.resize(graph.parameters.size());
  for (const ParameterId id : part.parameters) {
    HostTensor& values = store.values[id.index()] = HostTensor::zeros(graph.parameter(id).shape);
    store.gradients[id.index()] = values;
    initialize_parameter(graph, id, seed, values.floats());
  }
  return store;
}

}  // namespace fusion::exec
