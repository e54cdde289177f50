#include "core/engine/replay.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace fusion {
Replay::Replay(const Program& program)
    : program_(program), lists_(message_lists(program)), remaining_(num_steps(program)) {
  number_steps();
  link_successors();
  for (const DeviceProgram& device : program.devices) devices_.push_back({device.steps.begin()});
  for (const StepList& sends : lists_.sends) channels_.push_back({sends.begin()});
  for (std::uint32_t d = 0; d < devices_.size(); ++d) try_device(d);
  for (std::uint32_t c = 0; c < channels_.size(); ++c) try_channel(c);
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
  while (!device.next.at_end() && is_message(program_.task((*device.next).task))) ++device.next;
  if (device.next.at_end()) return;
  const Step step = *device.next;
  if (waiting_[index(step.task, step.micro_batch)] != 0) return;
  device.busy = true;
  ready_.push_back({Start::Kind::step, d, step});
}

void Replay::try_channel(std::uint32_t c) {
  ChannelState& channel = channels_[c];
  if (channel.busy || channel.next.at_end()) return;
  const Step step = *channel.next;
  if (waiting_[index(step.task, step.micro_batch)] != 0) return;
  channel.busy = true;
  ready_.push_back({Start::Kind::message, c, step});
}

void Replay::step_ended(std::uint32_t d) {
  Device& device = devices_[d];
  device.busy = false;
  const Step step = *device.next++;
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
      return try_channel(lists_.channel_of[task.index()]);
    default:
      return try_device(lists_.device_of[task.index()]);
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

}  // namespace fusion
