#include "core/engine/walk_graph.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/report/report.h"

namespace fusion {
namespace {

/// Whether the order of a device's list already says that one comes after the other.
bool listed_after(const Task& task, const Task& before) { return !is_message(task) && !is_message(before); }

template <class Visit>
void for_each_wait(const Program& program, const Task& task, Visit visit) {
  for (const TaskId before : task.after)
    if (!listed_after(task, program.task(before))) visit(before);
}

void add_lists(WalkGraph& graph, const Program& program, MessageLists& messages, bool one_send) {
  const auto kind = [&](TaskId task) { return program.task(task).kind; };
  for (const DeviceProgram& device : program.devices)
    graph.lists.push_back(filter(device.steps, [&](TaskId task) { return !is_message(program.task(task)); }));
  if (!one_send) {
    std::ranges::move(messages.sends, std::back_inserter(graph.lists));
    return;
  }
  for (const DeviceProgram& device : program.devices)
    graph.lists.push_back(filter(device.steps, [&](TaskId task) { return kind(task) == TaskKind::send; }));
}

void add_nodes(WalkGraph& graph, const Program& program, const Platform& platform, const MessageLists& messages,
               bool one_send) {
  std::vector<Route> routes;
  for (const Channel& channel : channels(program)) routes.push_back(route(platform, channel.from, channel.to));
  graph.nodes.resize(program.tasks.size() + 1);
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    WalkGraph::Node& node = graph.nodes[t];
    node.walker = messages.device_of[t];
    node.work_s = (task.duration + task.codec_duration).value;
    if (task.kind != TaskKind::send) continue;
    node.channel = messages.channel_of[t];
    node.walker = graph.num_devices + (one_send ? messages.device_of[t] : node.channel);
    node.work_s = (task.bytes / routes[node.channel].bandwidth).value;
    node.latency_s = routes[node.channel].latency.value;
    node.match = task.match.value;
  }
}

void add_waits(WalkGraph& graph, const Program& program) {
  std::vector<std::uint32_t> num_out(program.tasks.size());
  std::uint32_t in = 0, out = 0;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    graph.nodes[t].first_in = in;
    for_each_wait(program, program.tasks[t], [&](TaskId before) { ++in, ++num_out[before.index()]; });
  }
  graph.nodes.back().first_in = in;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    graph.nodes[t].first_out = out;
    out += std::exchange(num_out[t], out);
  }
  graph.nodes.back().first_out = out;
  graph.out.resize(out);
  graph.waits.resize(in);
  in = 0;
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    for_each_wait(program, program.tasks[t], [&](TaskId before) {
      graph.waits[in] = graph.nodes[t].walker;
      graph.out[num_out[before.index()]++] = in++;
    });
}

}  // namespace

WalkGraph walk_graph(const Program& program, const Platform& platform, bool one_send) {
  MessageLists messages = message_lists(program);
  WalkGraph graph;
  graph.num_devices = static_cast<std::uint32_t>(program.devices.size());
  graph.num_channels = messages.num_channels();
  add_lists(graph, program, messages, one_send);
  add_nodes(graph, program, platform, messages, one_send);
  add_waits(graph, program);
  return graph;
}

PendingTimes pending_times(const Program& program, const WalkGraph& graph) {
  PendingTimes pending(graph.waits.size());
  std::size_t wait = 0;
  for (const Task& task : program.tasks)
    for_each_wait(program, task, [&](TaskId before) {
      if (task.per_micro_batch != program.task(before).per_micro_batch)
        pending.gather(wait, instances(program, program.task(before)));
      ++wait;
    });
  return pending;
}

}  // namespace fusion
