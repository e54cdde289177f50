// One stage of the OP-DAG as a rank holds it: what goes in, what comes out, what it trains.
#pragma once

#include <map>
#include <vector>

#include "core/plan/schedule.h"
#include "exec/host_tensor.h"

namespace fusion::exec {

struct Part {
  std::vector<OpId> ops;                ///< ascending, which is a topological order
  std::vector<TensorId> inputs;         ///< made by other stages, read here; ascending
  std::vector<TensorId> data;           ///< outputs of this part's input and label ops: the data set gives their values
  std::vector<TensorId> outputs;        ///< made here, read by other stages; ascending
  std::vector<ParameterId> parameters;  ///< ascending; a tied one counts once
  bool has_loss = false;                ///< holds the cross_entropy
  bool operator==(const Part&) const = default;
};

Part part_of(const Graph&, const Stage&);

/// What the part trains on: the outputs of its cross_entropy ops; several add up. Throws InputError for one that other
/// ops read.
std::vector<TensorId> losses_of(const Graph&, const Part&);

/// Values of tensors, by id, for one micro-batch.
using Values = std::map<TensorId, HostTensor>;

}  // namespace fusion::exec
