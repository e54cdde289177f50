#include "exec/execute_wire.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/compress/topk_rows.h"
#include "core/plan/codec.h"

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

Shape coded_shape(const Task& task, const Graph& graph) {
  return fusion::coded_shape(graph.tensor(task.payload.tensor), task.codec.kind);
}

bool has_feedback(Feedback feedback, Payload::Kind kind) {
  return feedback == Feedback::all || (feedback == Feedback::gradients && kind == Payload::Kind::gradient);
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

std::optional<Coding> Wire::coding(const Task& task, std::int64_t step) const {
  if (!is_coded(task, graph_)) return {};
  auto coding = coding_of(graph_.tensor(task.payload.tensor), codec_at(task.codec, course_, step));
  if (coding) coding->options.feedback = has_feedback(course_.feedback, task.payload.kind);
  return coding;
}

/// What the codec gets. Where top-k is of rows, that is all it should keep, with the error feedback taken care of: what
/// rounding to fp16 loses is lost.
std::span<const float> Wire::values_to_code(const HostTensor& tensor, Coding& coding, compress::TensorState& state) {
  const std::uint64_t rows = topk_rows(course_.over, tensor.shape);
  if (coding.method != compress::Method::topk || rows == 1) return tensor.floats();
  const auto values = tensor.floats();
  const bool feedback = std::exchange(coding.options.feedback, false);
  kept_.assign(values.begin(), values.end());
  if (feedback && !state.residual.empty()) std::ranges::transform(kept_, state.residual, kept_.begin(), std::plus());
  if (feedback) state.residual.assign(kept_.begin(), kept_.end());
  const auto n = static_cast<std::int64_t>(values.size());
  compress::keep_of_rows(kept_, static_cast<std::uint64_t>(std::llround(coding.options.keep * static_cast<double>(n))),
                         rows, order_);
  if (feedback) std::ranges::transform(state.residual, kept_, state.residual.begin(), std::minus());
  return kept_;
}

Bytestring Wire::pack(TaskId send, std::int64_t step, const HostTensor& tensor) {
  const Task& task = program_.task(send);
  auto coding = this->coding(task, step);
  if (!coding) return tensor.data;
  compress::TensorState& state = this->state(send);
  const std::span<const float> values = values_to_code(tensor, *coding, state);
  Bytestring message;
  compress::encode(coding->method, task.payload.name, values, coded_shape(task, graph_), coding->options, state,
                   workspace_, message);
  return message;
}

HostTensor Wire::unpack(TaskId recv, std::int64_t step, Bytestring message) {
  const Task& task = program_.task(recv);
  HostTensor tensor = HostTensor::zeros(shape_of(task, graph_), dtype_of(task, graph_));
  if (const auto coding = this->coding(task, step)) {
    compress::decode(coding->method, task.payload.name, message, coded_shape(task, graph_), state(recv), workspace_,
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
    if (task.device != device || !has_state(tensors, prefix, coded_shape(task, graph_))) return;
    compress::TensorState& state = this->state(id);
    state.shape = coded_shape(task, graph_);
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
    if (has_state(tensors, prefix, coded_shape(program.task(id), graph))) known.insert(prefix);
  });
  for (const auto& [name, tensor] : tensors) {
    const std::string state = name.substr(0, name.rfind('/'));
    if (name.starts_with("e/") && !known.contains(state)) dropped.insert(state.substr(2));
  }
  return dropped;
}

}  // namespace fusion::exec
