#include "exec/data_ports.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

/// The output of the only op of this kind.
TensorId only(const Graph& graph, OpKind kind, const char* name) {
  const auto count = std::ranges::count(graph.ops, kind, &Op::kind);
  if (count != 1)
    throw InputError(graph.name, "", "has " + std::to_string(count) + ' ' + name + " ops; training needs one");
  return std::ranges::find(graph.ops, kind, &Op::kind)->outputs[0];
}

std::int64_t num_classes(const Graph& graph, const Op& loss) {
  const Shape& logits = graph.tensor(loss.inputs[0]).shape;
  const std::int64_t axis = loss.integer("axis");
  return logits[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(logits.size()) : axis)];
}

}  // namespace

DataPorts ports_of(const Graph& graph) {
  DataPorts ports;
  ports.input = only(graph, OpKind::input, "input");
  ports.label = only(graph, OpKind::label, "label");
  std::optional<std::int64_t> classes;
  const auto lower = [](std::optional<std::int64_t>& least, std::int64_t value) {
    least = std::min(least.value_or(value), value);
  };
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::embedding && !op.flag("positions")) lower(ports.vocabulary, op.integer("rows"));
    if (op.kind == OpKind::cross_entropy) lower(classes, num_classes(graph, op));
  }
  if (!classes) throw InputError(graph.name, "", "has no cross_entropy op; training needs a loss");
  ports.classes = *classes;
  return ports;
}

}  // namespace fusion::exec
