#include "sim/replay.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace fusion::sim {
namespace {

bool is_message(const Task& task) { return task.kind == TaskKind::send || task.kind == TaskKind::recv; }

}  // namespace

Replay::Replay(const Program& program)
    : program_(program), devices_(program.devices.size()), remaining_(num_steps(program)) {
  number_steps();
  link_successors();
  order_messages();
  for (std::uint32_t d = 0; d < devices_.size(); ++d) try_device(d);
  for (std::uint32_t c = 0; c < channels_.size(); ++c) try_channel(c);
}

std::uint32_t Replay::instances(TaskId task) const {
  return program_.task(task).per_micro_batch ? static_cast<std::uint32_t>(program_.info.micro_batches) : 1;
}

void Replay::number_steps() {
  first_.reserve(program_.tasks.size() + 1);
  first_.push_back(0);
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    unfinished_.push_back(instances(TaskId(t)));
    first_.push_back(first_.back() + unfinished_.back());
  }
  waiting_.resize(first_.back());
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    // A recv waits for its message beside its `after`.
    const std::size_t waits = task.after.size() + (task.kind == TaskKind::recv ? 1 : 0);
    check(waits < complete_, "a task waits for more than 65,534 others");
    const auto range = std::span(waiting_).subspan(first_[t], unfinished_[t]);
    std::ranges::fill(range, static_cast<std::uint16_t>(waits));
  }
}

void Replay::link_successors() {
  first_successor_.assign(program_.tasks.size() + 1, 0);
  for (const Task& task : program_.tasks)
    for (const TaskId before : task.after) ++first_successor_[before.index() + 1];
  std::partial_sum(first_successor_.begin(), first_successor_.end(), first_successor_.begin());
  successors_.resize(first_successor_.back());
  std::vector<std::uint32_t> fill(first_successor_.begin(), first_successor_.end() - 1);
  for (std::size_t t = 0; t < program_.tasks.size(); ++t)
    for (const TaskId before : program_.tasks[t].after) successors_[fill[before.index()]++] = TaskId(t);
}

/// Numbers the channels as `channels(program)` does and lists the messages of each as their sender does.
void Replay::order_messages() {
  std::map<DeviceId, std::uint32_t> list_of;
  for (std::uint32_t d = 0; d < devices_.size(); ++d) list_of[program_.devices[d].device] = d;
  std::map<Channel, std::uint32_t> number;
  for (const Channel& channel : channels(program_)) {
    const auto c = static_cast<std::uint32_t>(channels_.size());
    number[channel] = c;
    channels_.push_back({.sender = list_of.at(channel.from)});
  }
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    place_.push_back(task.kind == TaskKind::send ? number.at({task.device, task.peer}) : list_of.at(task.device));
    if (task.kind == TaskKind::send) channels_[place_[t]].end += instances(TaskId(t));
  }
  std::size_t total = 0;
  for (ChannelState& channel : channels_) {
    const std::size_t count = std::exchange(channel.end, total);
    channel.next = total;
    total += count;
  }
  messages_.resize(total);
  for (const DeviceProgram& device : program_.devices)
    for (std::size_t i = 0; i < device.steps.size(); ++i) {
      const TaskId task = device.steps[i].task;
      if (program_.task(task).kind == TaskKind::send)
        messages_[channels_[place_[task.index()]].end++] = static_cast<std::uint32_t>(i);
    }
}

std::optional<Start> Replay::take_ready() {
  if (next_ready_ == ready_.size()) {
    ready_.clear();
    next_ready_ = 0;
    return {};
  }
  return ready_[next_ready_++];
}

void Replay::try_device(std::uint32_t d) {
  Device& device = devices_[d];
  if (device.busy) return;
  const std::vector<Step>& steps = program_.devices[d].steps;
  while (device.next < steps.size() && is_message(program_.task(steps[device.next].task))) ++device.next;
  if (device.next == steps.size()) return;
  const Step step = steps[device.next];
  if (waiting_[index(step.task, step.micro_batch)] != 0) return;
  device.busy = true;
  ready_.push_back({Start::Kind::step, d, step});
}

void Replay::try_channel(std::uint32_t c) {
  ChannelState& channel = channels_[c];
  if (channel.busy || channel.next == channel.end) return;
  const Step step = program_.devices[channel.sender].steps[messages_[channel.next]];
  if (waiting_[index(step.task, step.micro_batch)] != 0) return;
  channel.busy = true;
  ready_.push_back({Start::Kind::message, c, step});
}

void Replay::step_ended(std::uint32_t d) {
  Device& device = devices_[d];
  device.busy = false;
  const Step step = program_.devices[d].steps[device.next++];
  complete(step);
  try_device(d);
}

void Replay::channel_freed(std::uint32_t c) {
  channels_[c].busy = false;
  ++channels_[c].next;
  try_channel(c);
}

void Replay::arrived(Step send) {
  complete(send);
  release(program_.task(send.task).match, send.micro_batch);
}

void Replay::complete(Step step) {
  waiting_[index(step.task, step.micro_batch)] = complete_;
  --remaining_;
  const bool last = --unfinished_[step.task.index()] == 0;
  const bool per_micro_batch = program_.task(step.task).per_micro_batch;
  for (std::uint32_t i = first_successor_[step.task.index()]; i < first_successor_[step.task.index() + 1]; ++i) {
    const TaskId successor = successors_[i];
    if (per_micro_batch && program_.task(successor).per_micro_batch)
      release(successor, step.micro_batch);
    else if (last)
      for (std::uint32_t m = 0; m < instances(successor); ++m) release(successor, m);
  }
}

void Replay::release(TaskId task, std::uint32_t micro_batch) {
  if (--waiting_[index(task, micro_batch)] > 0) return;
  switch (program_.task(task).kind) {
    case TaskKind::recv:
      return complete({task, micro_batch});
    case TaskKind::send:
      return try_channel(place_[task.index()]);
    default:
      return try_device(place_[task.index()]);
  }
}

std::string Replay::what_waits(const Platform& platform, std::size_t limit) const {
  std::string text;
  std::size_t shown = 0, tasks = 0;
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    if (unfinished_[t] == 0 || ++tasks > limit) continue;
    const Task& task = program_.tasks[t];
    const auto steps = std::span(waiting_).subspan(first_[t], instances(TaskId(t)));
    const auto open = std::ranges::find_if(steps, [](std::uint16_t w) { return w != complete_; });
    text += "\n  " + platform.device(task.device).name + ": " + describe(program_, platform, TaskId(t));
    if (task.per_micro_batch) text += ", micro-batch " + std::to_string(open - steps.begin());
    if (is_message(task)) text += ", " + std::to_string(task.bytes.value) + " bytes";
    if (unfinished_[t] > 1) text += " (and " + std::to_string(unfinished_[t] - 1) + " more)";
    ++shown;
  }
  return tasks > shown ? text + "\n  and " + std::to_string(tasks - shown) + " more tasks" : text;
}

}  // namespace fusion::sim
