// Where data enters a graph, and what it may hold there.
#pragma once

#include <cstdint>
#include <optional>

#include "core/graph/graph.h"

namespace fusion::exec {

struct DataPorts {
  TensorId input, label;
  std::optional<std::int64_t> vocabulary;  ///< token ids below this, where the input feeds embeddings
  std::int64_t classes = 0;                ///< labels below this
};
/// Throws InputError for a graph without exactly one input, one label and a cross_entropy.
DataPorts ports_of(const Graph&);

}  // namespace fusion::exec
