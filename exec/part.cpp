#include "exec/part.h"

#include <algorithm>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

template <class Id>
void sort_unique(std::vector<Id>& ids) {
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
}

bool is_source(const Op& op) { return op.kind == OpKind::input || op.kind == OpKind::label; }

}  // namespace

Part part_of(const Graph& graph, const Stage& stage) {
  Part part;
  part.ops = stage.ops;
  const auto holds = [&](OpId op) { return std::ranges::binary_search(stage.ops, op); };
  const auto is_elsewhere = [&](OpId op) { return !holds(op); };
  for (const OpId id : stage.ops) {
    const Op& op = graph.op(id);
    for (const TensorId tensor : op.inputs)
      if (!holds(graph.tensor(tensor).producer)) part.inputs.push_back(tensor);
    for (const TensorId tensor : op.outputs) {
      if (is_source(op)) part.data.push_back(tensor);
      if (std::ranges::any_of(graph.tensor(tensor).consumers, is_elsewhere)) part.outputs.push_back(tensor);
    }
    part.parameters.insert(part.parameters.end(), op.parameters.begin(), op.parameters.end());
    part.has_loss |= op.kind == OpKind::cross_entropy;
  }
  sort_unique(part.inputs);
  sort_unique(part.data);
  sort_unique(part.outputs);
  sort_unique(part.parameters);
  return part;
}

std::vector<TensorId> losses_of(const Graph& graph, const Part& part) {
  std::vector<TensorId> losses;
  for (const OpId id : part.ops) {
    const Op& op = graph.op(id);
    if (op.kind != OpKind::cross_entropy) continue;
    if (!graph.tensor(op.outputs[0]).consumers.empty())
      throw InputError(graph.name, op.name, "other ops read this loss; one that a run trains on must be an end");
    losses.push_back(op.outputs[0]);
  }
  return losses;
}

}  // namespace fusion::exec
