#include "core/plan/linear_order.h"

#include <algorithm>

#include "core/base/error.h"

namespace fusion {

std::vector<Unit> linear_order(const Graph& graph) {
  std::vector<Unit> attached(graph.ops.size());  // by the op that reads them first
  std::vector<Unit> units;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind != OpKind::input && op.kind != OpKind::label) {
      attached[i].ops.emplace_back(i);
      units.push_back(std::move(attached[i]));
      continue;
    }
    const std::vector<OpId>& readers = graph.tensor(op.outputs.front()).consumers;
    check(!readers.empty(), "a graph with an input that nobody reads");
    attached[readers.front().index()].ops.emplace_back(i);
  }
  return units;
}

std::vector<Stage> cut_line(std::span<const Unit> units, std::span<const std::size_t> bounds,
                            std::span<const DeviceId> devices) {
  check(bounds.size() == devices.size() + 1 && bounds.front() == 0 && bounds.back() == units.size(),
        "bounds that don't cover the line");
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < devices.size(); ++s) {
    check(bounds[s] < bounds[s + 1], "an empty part of the line");
    Stage stage{.device = devices[s], .replica = 0, .ops = {}};
    for (const Unit& unit : units.subspan(bounds[s], bounds[s + 1] - bounds[s]))
      stage.ops.insert(stage.ops.end(), unit.ops.begin(), unit.ops.end());
    std::ranges::sort(stage.ops);
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace fusion
