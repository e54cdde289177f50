#include "core/program/lower.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/plan/exchange.h"

namespace fusion {
namespace {

/// What one stage does, as tasks: filled while tasks are made, read when the device's list is written.
struct StageTasks {
  std::optional<TaskId> forward, backward, weights, update;  ///< backward: the whole, or its first half
  std::vector<TaskId> forward_recvs, forward_sends, backward_recvs, backward_sends;
  std::vector<TaskId> sums;  ///< what its gradients are summed with

  TaskId last_backward() const { return weights ? *weights : *backward; }
};

/// The stages of one device, by chunk.
struct DeviceTasks {
  DeviceId device;
  OrderShape shape;
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
};

void add_devices(Lowering& to) {
  to.device_index.resize(to.stages.size());
  for (const StageRange& pipeline : pipelines(to.schedule.stages)) {
    const int num_devices = static_cast<int>(pipeline.size()) / to.order.chunks;
    for (int d = 0; d < num_devices; ++d) {
      const DeviceId device = to.device(pipeline.first + static_cast<std::size_t>(d));
      to.devices.push_back({device, {num_devices, d, micro_batches_of_each(to.schedule)}, {}, {}});
      for (int chunk = 0; chunk < to.order.chunks; ++chunk) {
        const auto stage = static_cast<std::size_t>(to.order.stage_of(d, chunk, num_devices));
        to.devices.back().stages.push_back(pipeline.first + stage);
        to.device_index[pipeline.first + stage] = to.devices.size() - 1;
      }
    }
  }
}

RunInfo run_info(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  RunInfo info;
  info.model = schedule.model;
  info.platform = schedule.platform;
  info.policy = schedule.policy;
  info.order = schedule.order;
  info.compress = schedule.compress;
  info.collective = schedule.collective;
  info.seed = schedule.seed;
  info.devices_available = platform.devices.size();
  info.micro_batches = micro_batches_of_each(schedule);
  info.replicas = schedule.replicas;
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

/// All-reduces of the gradients of each bucket, at the end of the lists of the devices that hold it.
void add_exchange(Lowering& to, const Exchange& exchange) {
  std::vector<Member> members;
  for (const StageId first : exchange.first) {
    Member member{to.device(first.index()), first, {}};
    for (const StageId stage : exchange.stages)
      if (to.device(stage.index()) == member.device) member.after.push_back(to.stages[stage.index()].last_backward());
    members.push_back(std::move(member));
  }
  const auto tasks =
      add_all_reduce(to.program, to.platform, members, exchange.bucket, transfers(exchange, to.schedule, to.platform));
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::size_t stage = members[m].stage.index();
    std::ranges::copy(tasks[m].list, std::back_inserter(to.device_of(stage).exchange));
    std::ranges::copy(tasks[m].done, std::back_inserter(to.stages[stage].sums));
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
  update.after = to.stages[s].sums;
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
  StepList steps = step_list(turns_of(from, device), from.order.slots(device.shape));
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
  Lowering to{schedule, graph, platform, costs, find_order(schedule.order, micro_batches_of_each(schedule))};
  to.stages.resize(schedule.stages.size());
  add_devices(to);
  to.program.info = run_info(schedule, graph, platform);
  to.program.stages = schedule.stages;
  for (const Stage& stage : schedule.stages) to.program.stage_names.push_back(stage_name(graph, stage));

  for (std::size_t s = 0; s < to.stages.size(); ++s) add_compute(to, s);
  for (const CutEdge& edge : schedule.edges) add_edge(to, edge);
  for (const Exchange& each : exchanges(schedule, graph)) add_exchange(to, each);
  for (std::size_t s = 0; s < to.stages.size(); ++s) add_update(to, s);
  for (std::size_t d = 0; d < to.devices.size(); ++d)
    to.program.devices.push_back({to.devices[d].device, static_bytes(to, to.devices[d]), list_steps(to, d)});
  return std::move(to.program);
}

}  // namespace fusion
