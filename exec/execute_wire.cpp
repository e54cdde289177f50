#include "exec/execute_wire.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

Shape shape_of(const Task& task, const Graph& graph) {
  const bool of_parameters =
      task.payload.kind == Payload::Kind::parameter_gradient || task.payload.kind == Payload::Kind::parameter_sum;
  if (of_parameters) return {task.payload.end - task.payload.begin};
  return graph.tensor(task.payload.tensor).shape;
}

DType dtype_of(const Task& task, const Graph& graph) {
  if (task.payload.kind != Payload::Kind::activation) return DType::fp32;
  return graph.tensor(task.payload.tensor).dtype == DType::int64 ? DType::int64 : DType::fp32;
}

bool is_coded(const Task& task, const Graph& graph) {
  return task.codec.kind != CodecKind::none && dtype_of(task, graph) == DType::fp32;
}

Coding coding_of(const Task& task, const Graph& graph) {
  const auto coding = fusion::coding_of(graph.tensor(task.payload.tensor), task.codec);
  check(coding.has_value(), "a coded message of a tensor that travels as it is");
  return *coding;
}

/// "send/activation/h.3.add/h.4.ln_1/topk", and "/replica 1" where it is not the first.
std::string state_name(const Program& program, const Graph& graph, TaskId id) {
  const Task& task = program.task(id);
  const bool sends = task.kind == TaskKind::send;
  const bool at_reader = sends == (task.payload.kind == Payload::Kind::gradient);
  const StageId reader = at_reader ? task.stage : program.task(task.match).stage;
  const std::string& op = graph.op(program.stages[reader.index()].ops.front()).name;
  const int replica = program.stages[reader.index()].replica;
  return (sends ? "send/" : "recv/") + std::string(name_of(task.payload.kind)) + '/' + task.payload.name + '/' + op +
         '/' + std::string(row_of(task.codec.kind).name) + (replica > 0 ? "/replica " + std::to_string(replica) : "");
}

template <class Visit>
void for_each_coded(const Program& program, const Graph& graph, Visit visit) {
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    const bool message = task.kind == TaskKind::send || task.kind == TaskKind::recv;
    if (message && is_coded(task, graph)) visit(TaskId(t));
  }
}

HostTensor tensor_of(std::span<const float> values) {
  HostTensor tensor = HostTensor::zeros({static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.floats().begin());
  return tensor;
}

HostTensor tensor_of(const Shape& shape) {
  HostTensor tensor = HostTensor::zeros({static_cast<std::int64_t>(shape.size())}, DType::int64);
  std::ranges::copy(shape, tensor.integers().begin());
  return tensor;
}

/// Whether the checkpoint has this state, of tensors of this shape.
bool has_state(const NamedTensors& tensors, const std::string& prefix, const Shape& shape) {
  const auto found = tensors.find(prefix + "/shape");
  return found != tensors.end() && std::ranges::equal(found->second.integers(), shape);
}

template <class List>
void load(const NamedTensors& tensors, const std::string& name, List& values) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return;
  const auto floats = found->second.floats();
  values.assign(floats.begin(), floats.end());
}

}  // namespace

compress::TensorState& Wire::state(TaskId id) { return states_[state_name(program_, graph_, id)]; }

Bytestring Wire::pack(TaskId send, const HostTensor& tensor) {
  const Task& task = program_.task(send);
  if (!is_coded(task, graph_)) return tensor.data;
  const Coding coding = coding_of(task, graph_);
  Bytestring message;
  compress::encode(coding.method, task.payload.name, tensor.floats(), tensor.shape, coding.options, state(send),
                   workspace_, message);
  return message;
}

HostTensor Wire::unpack(TaskId recv, Bytestring message) {
  const Task& task = program_.task(recv);
  HostTensor tensor = HostTensor::zeros(shape_of(task, graph_), dtype_of(task, graph_));
  if (is_coded(task, graph_)) {
    compress::decode(coding_of(task, graph_).method, task.payload.name, message, tensor.shape, state(recv), workspace_,
                     tensor.floats());
    return tensor;
  }
  if (message.size() != tensor.data.size())
    throw RuntimeFault(task.payload.name + ": a message of " + std::to_string(message.size()) + " bytes came for " +
                       std::to_string(tensor.data.size()));
  tensor.data = std::move(message);
  return tensor;
}

void Wire::save(NamedTensors& tensors) const {
  for (const auto& [name, state] : states_.tensors) {
    const std::string prefix = "e/" + name;
    HostTensor step = HostTensor::zeros({1}, DType::int64);
    step.integers()[0] = static_cast<std::int64_t>(state.step);
    tensors[prefix + "/step"] = std::move(step);
    tensors[prefix + "/shape"] = tensor_of(state.shape);
    tensors[prefix + "/hint"] = tensor_of(std::span(&state.hint, 1));
    if (!state.residual.empty()) tensors[prefix + "/residual"] = tensor_of(state.residual);
    if (!state.reference.empty()) tensors[prefix + "/reference"] = tensor_of(state.reference);
  }
}

void Wire::restore(const NamedTensors& tensors, DeviceId device) {
  for_each_coded(program_, graph_, [&](TaskId id) {
    const Task& task = program_.task(id);
    const std::string prefix = "e/" + state_name(program_, graph_, id);
    if (task.device != device || !has_state(tensors, prefix, shape_of(task, graph_))) return;
    compress::TensorState& state = this->state(id);
    state.shape = shape_of(task, graph_);
    state.step = static_cast<std::uint64_t>(tensors.at(prefix + "/step").integers()[0]);
    state.hint = tensors.at(prefix + "/hint").floats()[0];
    load(tensors, prefix + "/residual", state.residual);
    load(tensors, prefix + "/reference", state.reference);
  });
}

std::set<std::string> dropped_states(const NamedTensors& tensors, const Program& program, const Graph& graph) {
  std::set<std::string> known, dropped;
  for_each_coded(program, graph, [&](TaskId id) {
    const std::string prefix = "e/" + state_name(program, graph, id);
    if (has_state(tensors, prefix, shape_of(program.task(id), graph))) known.insert(prefix);
  });
  for (const auto& [name, tensor] : tensors) {
    const std::string state = name.substr(0, name.rfind('/'));
    if (name.starts_with("e/") && !known.contains(state)) dropped.insert(state.substr(2));
  }
  return dropped;
}

}  // namespace fusion::exec
