#include "bench/synthetic.h"

#include <algorithm>
#include <optional>

namespace fusion {
namespace {

LinkPair add_links(Platform& platform, const std::string& name, BytesPerSecond bandwidth, Seconds latency,
                   bool shared) {
  platform.links.push_back({name + ".out", bandwidth, latency, shared});
  platform.links.push_back({name + ".in", bandwidth, latency, shared});
  return {LinkId(platform.links.size() - 2), LinkId(platform.links.size() - 1)};
}

void add_once(Program& program, TaskId task) {
  const DeviceId device = program.task(task).device;
  auto list = std::ranges::find(program.devices, device, &DeviceProgram::device);
  if (list == program.devices.end()) list = program.devices.insert(list, {device, Bytes(), {}});
  list->steps.push_back({task, 0});
}

struct StageTasks {
  TaskId forward, backward;  ///< backward: the whole, or its first half
  std::optional<TaskId> weights;
  std::vector<TaskId> forward_recv, forward_send, backward_recv, backward_send;
};

void add_edge(Program& program, StageTasks& from, StageTasks& into, Bytes bytes, bool forward) {
  const DeviceId a = program.task(from.forward).device, b = program.task(into.forward).device;
  if (a == b) {
    const TaskId before = forward ? from.forward : from.backward;
    program.tasks[(forward ? into.forward : into.backward).index()].after.push_back(before);
    return;
  }
  Task send;
  send.kind = TaskKind::send;
  send.phase = forward ? Phase::forward : Phase::backward;
  send.device = a;
  send.peer = b;
  send.bytes = send.dense_bytes = bytes;
  send.payload.kind = forward ? Payload::Kind::activation : Payload::Kind::gradient;
  Task recv = send;
  recv.kind = TaskKind::recv;
  recv.device = b;
  recv.peer = a;
  send.after = {forward ? from.forward : from.backward};
  send.match = TaskId(program.tasks.size() + 1);
  recv.match = TaskId(program.tasks.size());
  (forward ? from.forward_send : from.backward_send).push_back(add_task(program, send));
  const TaskId received = add_task(program, recv);
  (forward ? into.forward_recv : into.backward_recv).push_back(received);
  program.tasks[(forward ? into.forward : into.backward).index()].after.push_back(received);
}

void fill_turns(TurnTable& turns, int chunk, const Program& program, const StageTasks& tasks) {
  const auto fill = [&](const auto& recvs, TaskId compute, const auto& sends) {
    std::vector<TaskId>& turn = turns.at(chunk, program.task(compute).phase);
    turn = recvs;
    turn.push_back(compute);
    turn.insert(turn.end(), sends.begin(), sends.end());
  };
  fill(tasks.forward_recv, tasks.forward, tasks.forward_send);
  fill(tasks.backward_recv, tasks.backward, tasks.backward_send);
  if (tasks.weights) turns.at(chunk, Phase::weight_gradient) = {*tasks.weights};
}

StageTasks add_passes(Program& program, DeviceId device, const Order& order, const SyntheticPipeline& shape) {
  StageTasks tasks;
  Task task;
  task.device = device;
  task.stage = StageId(program.stages.size());
  program.stages.push_back({device, 0, {}});
  program.stage_names.push_back("stage " + std::to_string(task.stage.value));
  task.duration = shape.forward / order.chunks;
  tasks.forward = add_task(program, task);
  task.after = {tasks.forward};
  task.phase = order.splits_backward ? Phase::input_gradient : Phase::backward;
  task.duration = shape.backward / (order.chunks * (order.splits_backward ? 2 : 1));
  tasks.backward = add_task(program, task);
  if (!order.splits_backward) return tasks;
  task.after = {tasks.backward};
  task.phase = Phase::weight_gradient;
  tasks.weights = add_task(program, task);
  return tasks;
}

}  // namespace

Platform make_platform(const SyntheticPlatform& shape) {
  Platform platform;
  platform.name = "synthetic";
  GpuType gpu;
  gpu.name = "synthetic GPU";
  gpu.memory = Bytes(24LL << 30);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  gpu.sustained_bandwidth = gpu.sustained_flops = 1;
  gpu.peak_fp32 = gpu.peak_fp16 = gpu.peak_bf16 = FlopsPerSecond(1e13);
  platform.gpus = {gpu};
  const int per_site = (shape.num_devices + shape.num_sites - 1) / shape.num_sites;
  for (int s = 0; s < shape.num_sites; ++s) {
    platform.sites.push_back({.name = "s" + std::to_string(s), .hosts = {}, .uplink = {}});
    if (shape.num_sites > 1)
      platform.sites.back().uplink =
          add_links(platform, platform.sites.back().name, shape.uplink, shape.uplink_latency, shape.shared);
  }
  for (int d = 0; d < shape.num_devices; ++d) {
    const auto index = static_cast<std::size_t>(d);
    const SiteId site(static_cast<std::size_t>(d / per_site));
    const std::string name = "d" + std::to_string(d);
    const LinkPair nic = add_links(platform, name + ".nic", shape.nic, shape.nic_latency, shape.shared);
    platform.hosts.push_back({name, site, {DeviceId(index)}, nic});
    platform.sites[site.index()].hosts.emplace_back(index);
    platform.devices.push_back({name, GpuId(0UL), HostId(index)});
  }
  platform.buses.resize(platform.devices.size());
  return platform;
}

Program make_pipeline(const Platform& platform, const SyntheticPipeline& shape) {
  Program program;
  program.info.model = "synthetic";
  program.info.platform = platform.name;
  program.info.order = shape.order;
  program.info.micro_batches = shape.micro_batches;
  program.info.samples = shape.micro_batches;
  program.info.devices_available = platform.devices.size();
  const Order order = find_order(shape.order, shape.micro_batches);
  const int p = static_cast<int>(platform.devices.size());
  const std::size_t num_stages = platform.devices.size() * static_cast<std::size_t>(order.chunks);
  program.tasks.reserve(7 * num_stages);  // the passes, and a send and its recv to and from the next stage
  std::vector<StageTasks> stages;
  for (std::size_t s = 0; s < num_stages; ++s) {
    const DeviceId device(static_cast<std::size_t>(order.device_of(static_cast<int>(s), p)));
    stages.push_back(add_passes(program, device, order, shape));
  }
  for (std::size_t s = 0; s + 1 < num_stages; ++s) add_edge(program, stages[s], stages[s + 1], shape.message, true);
  for (std::size_t s = 0; s + 1 < num_stages; ++s) add_edge(program, stages[s + 1], stages[s], shape.message, false);
  for (int d = 0; d < p; ++d) {
    TurnTable turns;
    for (int c = 0; c < order.chunks; ++c)
      fill_turns(turns, c, program, stages[static_cast<std::size_t>(order.stage_of(d, c, p))]);
    program.devices.push_back(
        {DeviceId(static_cast<std::size_t>(d)), Bytes(), step_list(turns, order.slots({p, d, shape.micro_batches}))});
  }
  return program;
}

TaskId add_task(Program& program, Task task) {
  program.tasks.push_back(std::move(task));
  return TaskId(program.tasks.size() - 1);
}

TaskId add_compute(Program& program, DeviceId device, Seconds duration, std::vector<TaskId> after) {
  Task task;
  task.per_micro_batch = false;
  task.device = device;
  task.duration = duration;
  task.after = std::move(after);
  const TaskId id = add_task(program, std::move(task));
  add_once(program, id);
  return id;
}

MessageTasks add_message(Program& program, DeviceId from, DeviceId to, Bytes bytes, std::vector<TaskId> after) {
  Task send;
  send.kind = TaskKind::send;
  send.per_micro_batch = false;
  send.device = from;
  send.peer = to;
  send.bytes = send.dense_bytes = bytes;
  send.payload.kind = Payload::Kind::activation;
  Task recv = send;
  recv.kind = TaskKind::recv;
  recv.device = to;
  recv.peer = from;
  send.after = std::move(after);
  send.match = TaskId(program.tasks.size() + 1);
  recv.match = TaskId(program.tasks.size());
  const MessageTasks message{add_task(program, std::move(send)), add_task(program, std::move(recv))};
  add_once(program, message.send);
  add_once(program, message.recv);
  return message;
}

}  // namespace fusion
