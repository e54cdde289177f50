#include "core/program/lower.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/error.h"

namespace fusion {
namespace {

/// What one stage does, as tasks: filled while tasks are made, read when the device's list is written.
struct StageTasks {
  std::optional<TaskId> forward, backward, update;
  std::vector<TaskId> forward_recvs, forward_sends, backward_recvs, backward_sends;
  std::vector<TaskId> exchange;  ///< sends, recvs and reduces in list order
  std::vector<TaskId> reduces;
};

struct Lowering {
  const Schedule& schedule;
  const Graph& graph;
  const Platform& platform;
  const std::vector<StageCosts>& costs;
  Program program{};
  std::vector<StageTasks> stages{};

  TaskId add(Task task) {
    program.tasks.push_back(std::move(task));
    return TaskId(program.tasks.size() - 1);
  }
  Task& task(TaskId id) { return program.tasks[id.index()]; }
  DeviceId device(std::size_t stage) const { return schedule.stages[stage].device; }
};

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

void add_compute(Lowering& to, std::size_t s) {
  const StageCosts& costs = to.costs[s];
  Task forward;
  forward.device = to.device(s);
  forward.stage = StageId(s);
  forward.duration = costs.forward;
  forward.codec_duration = costs.forward_codec;
  forward.allocates = costs.kept;

  if (!needs_backward(to.graph, to.schedule.stages[s])) {
    forward.frees = forward.allocates;
    to.stages[s].forward = to.add(std::move(forward));
    return;
  }
  Task backward = forward;
  backward.phase = Phase::backward;
  backward.duration = costs.second_forward + costs.input_gradient + costs.weight_gradient;
  backward.codec_duration = costs.backward_codec;
  backward.allocates = costs.recompute_extra;
  backward.frees = costs.kept + backward.allocates;
  to.stages[s].forward = to.add(std::move(forward));
  backward.after = {*to.stages[s].forward};
  to.stages[s].backward = to.add(std::move(backward));
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

/// Every holder sends its gradient to every other, then adds all of them. Each pair takes its turn in the same order at
/// both ends and the earlier stage sends first, so that even blocking sends get through.
void add_exchange(Lowering& to, const std::vector<std::size_t>& holders, const std::vector<ParameterId>& parameters) {
  const Task model = bucket_message(to, parameters);
  std::map<std::size_t, std::vector<TaskId>> arrived;
  const auto exchange = [&](std::size_t from, std::size_t into) {
    const auto [sent, received] = add_message(to, from, into, model);
    to.task(sent).after = {*to.stages[from].backward};
    to.stages[from].exchange.push_back(sent);
    to.stages[into].exchange.push_back(received);
    arrived[into].push_back(received);
  };
  for (std::size_t i = 0; i < holders.size(); ++i)
    for (std::size_t j = i + 1; j < holders.size(); ++j) {
      exchange(holders[i], holders[j]);
      exchange(holders[j], holders[i]);
    }
  for (const std::size_t s : holders) {
    Task reduce = model;
    reduce.kind = TaskKind::reduce;
    reduce.device = to.device(s);
    reduce.stage = StageId(s);
    reduce.bytes = reduce.dense_bytes = Bytes();
    reduce.duration = reduce_time(to.platform, reduce.device, model.bytes, holders.size());
    reduce.after = arrived[s];
    reduce.after.push_back(*to.stages[s].backward);
    to.stages[s].reduces.push_back(to.add(std::move(reduce)));
    to.stages[s].exchange.push_back(to.stages[s].reduces.back());
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
  update.after.push_back(*to.stages[s].backward);
  to.stages[s].update = to.add(std::move(update));
}

/// For each turn of the stage what it waits for, the work, what it hands on.
TurnTable turns_of(const StageTasks& tasks) {
  TurnTable turns;
  const auto fill = [&](Phase phase, const auto& recvs, const auto& compute, const auto& sends) {
    if (!compute) return;
    std::vector<TaskId>& turn = turns.at(0, phase);
    turn = recvs;
    turn.push_back(*compute);
    turn.insert(turn.end(), sends.begin(), sends.end());
  };
  fill(Phase::forward, tasks.forward_recvs, tasks.forward, tasks.forward_sends);
  fill(Phase::backward, tasks.backward_recvs, tasks.backward, tasks.backward_sends);
  return turns;
}

/// The list of one stage: its turns, then the end of the iteration.
StepList list_steps(const Lowering& from, std::size_t s) {
  const StageTasks& tasks = from.stages[s];
  const OrderShape shape{static_cast<int>(from.stages.size()), static_cast<int>(s), from.schedule.micro_batches};
  const std::vector<Slot> slots = find_order(from.schedule.order).slots(shape);
  check(std::ranges::all_of(slots, [](const Slot& slot) { return slot.chunk == 0; }),
        "an order with virtual stages needs a lowering that knows them");
  StepList steps = step_list(turns_of(tasks), slots);
  for (const TaskId task : tasks.exchange) steps.push_back({task, 0});
  if (tasks.update) steps.push_back({*tasks.update, 0});
  return steps;
}

}  // namespace

Program lower(const Schedule& schedule, const Graph& graph, const Costs& op_costs, const Platform& platform) {
  const std::vector<StageCosts> costs = stage_costs(schedule, graph, op_costs, platform);
  Lowering to{schedule, graph, platform, costs};
  to.stages.resize(schedule.stages.size());
  to.program.info = run_info(schedule, graph, platform);
  to.program.stages = schedule.stages;
  for (const Stage& stage : schedule.stages) to.program.stage_names.push_back(stage_name(graph, stage));

  for (std::size_t s = 0; s < to.stages.size(); ++s) add_compute(to, s);
  for (const CutEdge& edge : schedule.edges) add_edge(to, edge);
  for (const auto& [holders, parameters] : tied_buckets(schedule, graph)) add_exchange(to, holders, parameters);
  for (std::size_t s = 0; s < to.stages.size(); ++s) add_update(to, s);
  for (std::size_t s = 0; s < to.stages.size(); ++s)
    to.program.devices.push_back({to.device(s), costs[s].parameters + costs[s].buffers, list_steps(to, s)});
  return std::move(to.program);
}

}  // namespace fusion
