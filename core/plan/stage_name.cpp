#include <algorithm>

#include "core/plan/stage_costs.h"

namespace fusion {
namespace {

bool is_number(std::string_view label) {
  return std::ranges::all_of(label, [](char c) { return c >= '0' && c <= '9'; });
}

/// Labels of consecutive blocks: "blocks 3-7" for numbers, "layer1.0-layer2.3" for names.
struct Run {
  std::string first, last;

  std::string text() const {
    const std::string range = first == last ? first : first + "-" + last;
    if (!is_number(first)) return range;
    return (first == last ? "block " : "blocks ") + range;
  }
};

std::vector<Run> runs_of_blocks(const Graph& graph, const Stage& stage) {
  std::vector<Run> runs;
  for (const OpId id : stage.ops) {
    const Op& op = graph.op(id);
    // Inputs and labels stand at the head of the model, whichever block reads them.
    if (op.block.empty() || op.inputs.empty()) continue;
    if (runs.empty() || is_number(runs.back().first) != is_number(op.block))
      runs.push_back({op.block, op.block});
    else
      runs.back().last = op.block;
  }
  return runs;
}

}  // namespace

std::string stage_name(const Graph& graph, const Stage& stage) {
  const std::vector<Run> runs = runs_of_blocks(graph, stage);
  if (runs.empty()) {
    const std::string& first = graph.op(stage.ops.front()).name;
    const std::string& last = graph.op(stage.ops.back()).name;
    return first == last ? first : first + ".." + last;
  }
  std::string name;
  for (const Run& run : runs) name += (name.empty() ? "" : "-") + run.text();
  return name;
}

}  // namespace fusion
