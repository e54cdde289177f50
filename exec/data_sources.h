// The kinds of data set, one function each; data.cpp holds their table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/data.h"
#include "exec/data_ports.h"

namespace fusion::exec {

/// What a source is opened with: "text:FILE" has argument "FILE".
struct DataRequest {
  std::string argument;
  const Graph& graph;
  DataPorts ports;
  std::uint64_t seed = 0;
};

std::unique_ptr<DataSet> open_text(const DataRequest&);
std::unique_ptr<DataSet> open_idx(const DataRequest&);
std::unique_ptr<DataSet> open_cifar10(const DataRequest&);
std::unique_ptr<DataSet> open_synthetic(const DataRequest&);

}  // namespace fusion::exec
