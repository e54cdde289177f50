#include "core/program/lower.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/error.h"

namespace fusion {
namespace {

/// What one stage does, as tasks: filled while tasks are made, read when the device's list is written.
struct StageTasks {
  std::optional<TaskId> forward, backward, weights, update;  ///< backward: the whole, or its first half
  std::vector<TaskId> forward_recvs, forward_sends, backward_recvs, backward_sends;
  std::vector<TaskId> reduces;

  TaskId last_backward() const { return weights ? *weights : *backward; }
};

/// The stages of one device, by chunk.
struct DeviceTasks {
  DeviceId device;
  std::vector<std::size_t> stages;
  std::vector<TaskId> exchange;  ///< sends, recvs and reduces in list order
};

struct Lowering {
  const Schedule& schedule;
  const Graph& graph;
  const Platform& platform;
  const std::vector<StageCosts>& costs;
  const Order order;
  Program program{};
  std::vector<StageTasks> stages{};
  std::vector<DeviceTasks> devices{};       ///< in the order of their first stage
  std::vector<std::size_t> device_index{};  ///< by stage

  TaskId add(Task task) {
    program.tasks.push_back(std::move(task));
    return TaskId(program.tasks.size() - 1);
  }
  Task& task(TaskId id) { return program.tasks[id.index()]; }
  DeviceId device(std::size_t stage) const { return schedule.stages[stage].device; }
  DeviceTasks& device_of(std::size_t stage) { return devices[device_index[stage]]; }
  int num_devices() const { return static_cast<int>(stages.size()) / order.chunks; }
};

void add_devices(Lowering& to) {
  for (int d = 0; d < to.num_devices(); ++d) {
    to.devices.push_back({to.device(static_cast<std::size_t>(d)), {}, {}});
    for (int chunk = 0; chunk < to.order.chunks; ++chunk)
      to.devices.back().stages.push_back(static_cast<std::size_t>(to.order.stage_of(d, chunk, to.num_devices())));
  }
  to.device_index.resize(to.stages.size());
  for (std::size_t d = 0; d < to.devices.size(); ++d)
    for (const std::size_t stage : to.devices[d].stages) to.device_index[stage] = d;
}

RunInfo run_info(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  RunInfo info;
  info.model = schedule.model;
  info.platform = schedule.platform;
  info.policy = schedule.policy;
  info.order = schedule.order;
  info.compress = schedule.compress;
  info.seed = schedule.seed;
  info.devices_available = platform.devices.size();
  info.micro_batches = schedule.micro_batches;
  info.samples = graph.micro_batch * schedule.micro_batches;
  info.tokens = info.samples * graph.tokens_per_sample;
  info.predicted_iteration = schedule.predicted_iteration;
  return info;
}

/// Whether a gradient flows through the stage: it makes something that depends on a parameter.
bool needs_backward(const Graph& graph, const Stage& stage) {
  return std::ranges::any_of(stage.ops, [&](OpId op) {
    return std::ranges::any_of(graph.op(op).outputs, [&](TensorId t) { return graph.tensor(t).needs_gradient; });
  });
}

bool has_parameters(const Graph& graph, const Stage& stage) {
  return std::ranges::any_of(stage.ops, [&](OpId op) { return !graph.op(op).parameters.empty(); });
}

TaskId add_pass(Lowering& to, std::size_t s, Phase phase, Seconds duration, Seconds codec, std::vector<TaskId> after) {
  const PassMemory memory = pass_memory(to.costs[s], phase);
  Task pass;
  pass.phase = phase;
  pass.device = to.device(s);
  pass.stage = StageId(s);
  pass.after = std::move(after);
  pass.duration = duration;
  pass.codec_duration = codec;
  pass.allocates = memory.allocates;
  pass.frees = memory.frees;
  return to.add(std::move(pass));
}

/// The gradient that the stage before waits for is there after the first half of a split backward pass.
void add_compute(Lowering& to, std::size_t s) {
  const StageCosts& costs = to.costs[s];
  StageTasks& tasks = to.stages[s];
  tasks.forward = add_pass(to, s, Phase::forward, costs.forward, costs.forward_codec, {});
  if (!needs_backward(to.graph, to.schedule.stages[s])) {
    to.task(*tasks.forward).frees = costs.kept;
    return;
  }
  const Seconds first_half = costs.second_forward + costs.input_gradient;
  if (!to.order.splits_backward) {
    tasks.backward =
        add_pass(to, s, Phase::backward, first_half + costs.weight_gradient, costs.backward_codec, {*tasks.forward});
    return;
  }
  tasks.backward = add_pass(to, s, Phase::input_gradient, first_half, costs.backward_codec, {*tasks.forward});
  tasks.weights = add_pass(to, s, Phase::weight_gradient, costs.weight_gradient, Seconds(), {*tasks.backward});
}

/// A send and its recv; the caller says what the send waits for.
std::pair<TaskId, TaskId> add_message(Lowering& to, std::size_t from, std::size_t into, const Task& model) {
  Task send = model, recv = model;
  send.kind = TaskKind::send;
  send.device = recv.peer = to.device(from);
  send.stage = StageId(from);
  recv.kind = TaskKind::recv;
  recv.device = send.peer = to.device(into);
  recv.stage = StageId(into);
  const TaskId sent = to.add(std::move(send)), received = to.add(std::move(recv));
  to.task(sent).match = received;
  to.task(received).match = sent;
  return {sent, received};
}

Task tensor_message(const Graph& graph, TensorId tensor, Payload::Kind kind, Codec codec) {
  Task message;
  message.phase = kind == Payload::Kind::activation ? Phase::forward : Phase::backward;
  message.payload.kind = kind;
  message.payload.tensor = tensor;
  message.payload.name = graph.tensor(tensor).name;
  message.codec = codec;
  message.bytes = wire_bytes(graph.tensor(tensor), codec);
  message.dense_bytes = wire_bytes(graph.tensor(tensor), Codec{});
  return message;
}

/// The activation one way and, where the tensor has one, the gradient the other way. Two stages of one device hand
/// over without a message.
void add_edge(Lowering& to, const CutEdge& edge) {
  const std::size_t from = edge.from.index(), into = edge.to.index();
  StageTasks &source = to.stages[from], &target = to.stages[into];
  const bool gradient = to.graph.tensor(edge.tensor).needs_gradient;
  if (to.device(from) == to.device(into)) {
    to.task(*target.forward).after.push_back(*source.forward);
    if (gradient) to.task(*source.backward).after.push_back(*target.backward);
    return;
  }
  const auto [sent, received] =
      add_message(to, from, into, tensor_message(to.graph, edge.tensor, Payload::Kind::activation, edge.activation));
  to.task(sent).after = {*source.forward};
  to.task(*target.forward).after.push_back(received);
  source.forward_sends.push_back(sent);
  target.forward_recvs.push_back(received);
  if (!gradient) return;
  const auto [sent_back, received_back] =
      add_message(to, into, from, tensor_message(to.graph, edge.tensor, Payload::Kind::gradient, edge.gradient));
  to.task(sent_back).after = {*target.backward};
  to.task(*source.backward).after.push_back(received_back);
  target.backward_sends.push_back(sent_back);
  source.backward_recvs.push_back(received_back);
}

/// Tied parameters by the stages that hold them. Those with the same holders travel as one bucket.
std::map<std::vector<std::size_t>, std::vector<ParameterId>> tied_buckets(const Schedule& schedule,
                                                                          const Graph& graph) {
  std::vector<std::size_t> stage_of(graph.ops.size());
  for (std::size_t s = 0; s < schedule.stages.size(); ++s)
    for (const OpId op : schedule.stages[s].ops) stage_of[op.index()] = s;

  std::map<std::vector<std::size_t>, std::vector<ParameterId>> buckets;
  for (std::size_t p = 0; p < graph.parameters.size(); ++p) {
    std::vector<std::size_t> holders;
    for (const OpId op : graph.parameters[p].users) holders.push_back(stage_of[op.index()]);
    std::ranges::sort(holders);
    holders.erase(std::ranges::unique(holders).begin(), holders.end());
    if (holders.size() > 1) buckets[holders].emplace_back(p);
  }
  return buckets;
}

Task bucket_message(const Lowering& to, const std::vector<ParameterId>& parameters) {
  Task message;
  message.phase = Phase::exchange;
  message.per_micro_batch = false;
  message.payload.kind = Payload::Kind::parameter_gradient;
  message.payload.parameters = parameters;
  for (const ParameterId p : parameters) message.payload.end += num_elements(to.graph.parameter(p).shape);
  message.payload.name = to.graph.parameter(parameters.front()).name;
  if (parameters.size() > 1) message.payload.name += " and " + std::to_string(parameters.size() - 1) + " more";
  message.bytes = Bytes(message.payload.end * size_of(compute_dtype(to.schedule.training.precision)));
  message.dense_bytes = message.bytes;
  return message;
}

/// Adds k gradients of a bucket up: k reads and one write of its bytes, at the memory's sustained rate.
Seconds reduce_time(const Platform& platform, DeviceId device, Bytes bytes, std::size_t k) {
  return bytes * static_cast<std::int64_t>(k + 1) / sustained_bandwidth(platform.gpu_of(device));
}

/// A device that holds a bucket: the first of its stages that does, and the passes that complete its gradient.
struct Holder {
  std::size_t stage;
  std::vector<TaskId> complete;
};

std::vector<Holder> devices_that_hold(const Lowering& in, const std::vector<std::size_t>& stages) {
  std::vector<Holder> holders;
  for (const std::size_t s : stages) {
    const auto known =
        std::ranges::find_if(holders, [&](const Holder& h) { return in.device(h.stage) == in.device(s); });
    Holder& holder = known != holders.end() ? *known : holders.emplace_back(Holder{s, {}});
    holder.complete.push_back(in.stages[s].last_backward());
  }
  return holders;
}

/// Every holder sends its gradient to every other, then adds all of them. Each pair takes its turn in the same order at
/// both ends and the earlier stage sends first, so that even blocking sends get through. Stages of one device share the
/// parameter and its gradient.
void add_exchange(Lowering& to, const std::vector<std::size_t>& stages, const std::vector<ParameterId>& parameters) {
  const std::vector<Holder> holders = devices_that_hold(to, stages);
  if (holders.size() == 1) return;
  const Task model = bucket_message(to, parameters);
  std::map<std::size_t, std::vector<TaskId>> arrived;
  const auto exchange = [&](const Holder& from, const Holder& into) {
    const auto [sent, received] = add_message(to, from.stage, into.stage, model);
    to.task(sent).after = from.complete;
    to.device_of(from.stage).exchange.push_back(sent);
    to.device_of(into.stage).exchange.push_back(received);
    arrived[into.stage].push_back(received);
  };
  for (std::size_t i = 0; i < holders.size(); ++i)
    for (std::size_t j = i + 1; j < holders.size(); ++j) {
      exchange(holders[i], holders[j]);
      exchange(holders[j], holders[i]);
    }
  for (const auto& [s, complete] : holders) {
    Task reduce = model;
    reduce.kind = TaskKind::reduce;
    reduce.device = to.device(s);
    reduce.stage = StageId(s);
    reduce.bytes = reduce.dense_bytes = Bytes();
    reduce.duration = reduce_time(to.platform, reduce.device, model.bytes, holders.size());
    reduce.after = arrived[s];
    reduce.after.insert(reduce.after.end(), complete.begin(), complete.end());
    to.stages[s].reduces.push_back(to.add(std::move(reduce)));
    to.device_of(s).exchange.push_back(to.stages[s].reduces.back());
  }
}

void add_update(Lowering& to, std::size_t s) {
  if (!has_parameters(to.graph, to.schedule.stages[s])) return;
  Task update;
  update.kind = TaskKind::update;
  update.phase = Phase::update;
  update.per_micro_batch = false;
  update.device = to.device(s);
  update.stage = StageId(s);
  update.duration = to.costs[s].update;
  update.after = to.stages[s].reduces;
  update.after.push_back(to.stages[s].last_backward());
  to.stages[s].update = to.add(std::move(update));
}

/// For each turn of the device what it waits for, the work, what it hands on.
TurnTable turns_of(const Lowering& from, const DeviceTasks& device) {
  TurnTable turns;
  for (std::size_t c = 0; c < device.stages.size(); ++c) {
    const StageTasks& tasks = from.stages[device.stages[c]];
    const auto fill = [&](const auto& recvs, const auto& compute, const auto& sends) {
      if (!compute) return;
      std::vector<TaskId>& turn = turns.at(static_cast<int>(c), from.program.task(*compute).phase);
      turn = recvs;
      turn.push_back(*compute);
      turn.insert(turn.end(), sends.begin(), sends.end());
    };
    fill(tasks.forward_recvs, tasks.forward, tasks.forward_sends);
    fill(tasks.backward_recvs, tasks.backward, tasks.backward_sends);
    fill(std::vector<TaskId>(), tasks.weights, std::vector<TaskId>());
  }
  return turns;
}

/// The list of one device: its turns, then the end of the iteration.
StepList list_steps(const Lowering& from, std::size_t d) {
  const DeviceTasks& device = from.devices[d];
  const OrderShape shape{from.num_devices(), static_cast<int>(d), from.schedule.micro_batches};
  StepList steps = step_list(turns_of(from, device), from.order.slots(shape));
  for (const TaskId task : device.exchange) steps.push_back({task, 0});
  for (const std::size_t s : device.stages)
    if (from.stages[s].update) steps.push_back({*from.stages[s].update, 0});
  return steps;
}

Bytes static_bytes(const Lowering& from, const DeviceTasks& device) {
  Bytes sum;
  for (const std::size_t s : device.stages) sum += from.costs[s].parameters + from.costs[s].buffers;
  return sum;
}

}  // namespace

Program lower(const Schedule& schedule, const Graph& graph, const Costs& op_costs, const Platform& platform) {
  const std::vector<StageCosts> costs = stage_costs(schedule, graph, op_costs, platform);
  Lowering to{schedule, graph, platform, costs, find_order(schedule.order, schedule.micro_batches)};
  to.stages.resize(schedule.stages.size());
  add_devices(to);
  to.program.info = run_info(schedule, graph, platform);
  to.program.stages = schedule.stages;
  for (const Stage& stage : schedule.stages) to.program.stage_names.push_back(stage_name(graph, stage));

  for (std::size_t s = 0; s < to.stages.size(); ++s) add_compute(to, s);
  for (const CutEdge& edge : schedule.edges) add_edge(to, edge);
  for (const auto& [holders, parameters] : tied_buckets(schedule, graph)) add_exchange(to, holders, parameters);
  for (std::size_t s = 0; s < to.stages.size(); ++s) add_update(to, s);
  for (std::size_t d = 0; d < to.devices.size(); ++d)
    to.program.devices.push_back({to.devices[d].device, static_bytes(to, to.devices[d]), list_steps(to, d)});
  return std::move(to.program);
}

}  // namespace fusion
