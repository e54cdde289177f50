// The longest path through a program. A *walker* follows each device through its computations and each lane (a channel,
// or with one_send all of a device's) through its messages. It stops at the first step whose time is not known yet, and
// is called again by the walker that will find it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/engine/native_run.h"
#include "core/engine/replay.h"

namespace fusion {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
constexpr double unknown = std::numeric_limits<double>::infinity();

struct Walker {
  StepList::Iterator next;  ///< in the device's list, or the lane's
  double free_s = 0;        ///< when the step before has left
  std::uint32_t first_waiter = none, next_waiter = none;
};

/// Messages by what carries one at a time.
struct Lanes {
  std::vector<std::uint32_t> lane_of;  ///< by task
  std::vector<StepList> sends;
};

Lanes lanes_of(const Program& program, const MessageLists& lists, bool one_send) {
  if (!one_send) return {lists.channel_of, lists.sends};
  Lanes lanes{lists.device_of, {}};
  for (const DeviceProgram& device : program.devices)
    lanes.sends.push_back(filter(device.steps, [&](TaskId task) { return program.task(task).kind == TaskKind::send; }));
  return lanes;
}

class Walk {
 public:
  Walk(const Program& program, const Platform& platform, const MessageLists& lists, bool one_send, bool timeline)
      : program_(program),
        lists_(lists),
        lanes_(lanes_of(program, lists, one_send)),
        num_devices_(static_cast<std::uint32_t>(program.devices.size())),
        timeline_(timeline) {
    first_.reserve(program.tasks.size() + 1);
    first_.push_back(0);
    for (const Task& task : program.tasks) first_.push_back(first_.back() + instances(program, task));
    done_s_.assign(first_.back(), unknown);
    for (const Task& task : program.tasks) open_.push_back({instances(program, task), 0});
    for (const Channel& channel : channels(program)) routes_.push_back(route(platform, channel.from, channel.to));
    for (const DeviceProgram& device : program.devices) walkers_.push_back({device.steps.begin()});
    for (const StepList& sends : lanes_.sends) walkers_.push_back({sends.begin()});
    busy_.resize(lists.num_channels());
    measured_.device_busy.resize(num_devices_);
  }

  Measured run(const Platform& platform) {
    for (auto w = static_cast<std::uint32_t>(walkers_.size()); w-- > 0;) called_.push_back(w);
    while (!called_.empty()) {
      const std::uint32_t w = called_.back();
      called_.pop_back();
      w < num_devices_ ? follow_device(w) : follow_lane(w);
    }
    for (const Walker& walker : walkers_)
      if (!walker.next.at_end()) throw_what_waits(platform);
    for (const BusyTime& busy : busy_) measured_.channel_busy.emplace_back(busy.sum_s);
    return std::move(measured_);
  }

 private:
  /// All instances of a task together: how many are not done, and when the last was.
  struct Open {
    std::uint32_t count;
    double last_s;
  };

  std::size_t index(Step step) const { return first_[step.task.index()] + step.micro_batch; }

  /// When what a step waits for is complete; `unknown`, and the walker is put where it will be called, while it isn't.
  double ready_s(const Task& task, std::uint32_t micro_batch, std::uint32_t walker) {
    double ready = 0;
    for (const TaskId before : task.after) {
      const bool same = task.per_micro_batch && program_.task(before).per_micro_batch;
      const double time = same                               ? done_s_[first_[before.index()] + micro_batch]
                          : open_[before.index()].count == 0 ? open_[before.index()].last_s
                                                             : unknown;
      if (time == unknown) {
        wait_for(before, walker);
        return unknown;
      }
      ready = std::max(ready, time);
    }
    return ready;
  }

  void wait_for(TaskId task, std::uint32_t walker) {
    const Task& what = program_.task(task);
    const TaskId made_by = what.kind == TaskKind::recv ? what.match : task;
    const bool is_compute = !is_message(what);
    const std::uint32_t maker =
        is_compute ? lists_.device_of[task.index()] : num_devices_ + lanes_.lane_of[made_by.index()];
    walkers_[walker].next_waiter = std::exchange(walkers_[maker].first_waiter, walker);
  }

  void call_waiters(Walker& of) {
    for (std::uint32_t w = std::exchange(of.first_waiter, none); w != none;) {
      called_.push_back(w);
      w = std::exchange(walkers_[w].next_waiter, none);
    }
  }

  void complete(Step step, double time_s) {
    done_s_[index(step)] = time_s;
    Open& open = open_[step.task.index()];
    --open.count;
    open.last_s = std::max(open.last_s, time_s);
    measured_.iteration = std::max(measured_.iteration, Seconds(time_s));
  }

  void record(Step step, double start_s, double end_s) {
    if (timeline_) measured_.timeline.push_back({step.task, step.micro_batch, Seconds(start_s), Seconds(end_s)});
  }

  void follow_device(std::uint32_t w) {
    Walker& walker = walkers_[w];
    const StepList::Iterator before = walker.next;
    for (; !walker.next.at_end(); ++walker.next) {
      const Step step = *walker.next;
      const Task& task = program_.task(step.task);
      if (is_message(task)) continue;
      const double ready = ready_s(task, step.micro_batch, w);
      if (ready == unknown) break;
      const Seconds duration = task.duration + task.codec_duration;
      const double start_s = std::max(ready, walker.free_s);
      walker.free_s = start_s + duration.value;
      measured_.device_busy[w] += duration;
      record(step, start_s, walker.free_s);
      complete(step, walker.free_s);
    }
    if (walker.next != before) call_waiters(walker);
  }

  void follow_lane(std::uint32_t w) {
    Walker& walker = walkers_[w];
    const StepList::Iterator before = walker.next;
    for (; !walker.next.at_end(); ++walker.next) {
      const Step send = *walker.next;
      const Task& task = program_.task(send.task);
      const double ready = ready_s(task, send.micro_batch, w);
      if (ready == unknown) break;
      const std::uint32_t channel = lists_.channel_of[send.task.index()];
      const double start_s = std::max(ready, walker.free_s);
      walker.free_s = start_s + (task.bytes / routes_[channel].bandwidth).value;
      const double arrival_s = walker.free_s + routes_[channel].latency.value;
      busy_[channel].add(start_s, arrival_s);
      const Step recv{task.match, send.micro_batch};
      record(send, start_s, arrival_s);
      record(recv, start_s, arrival_s);
      complete(send, arrival_s);
      complete(recv, arrival_s);
    }
    if (walker.next != before) call_waiters(walker);
  }

  /// The bookkeeping of the other loop says it: without an engine its messages never arrive, so all is told that waits
  /// once what can run has run.
  [[noreturn]] void throw_what_waits(const Platform& platform) const {
    Replay replay(program_);
    while (const auto start = replay.take_ready()) {
      if (start->kind == Start::Kind::step) {
        replay.step_ended(start->place);
      } else {
        replay.arrived(start->step);
        replay.channel_freed(start->place);
      }
    }
    throw RuntimeFault("the simulation stopped at " + format(measured_.iteration) +
                       " with work left:" + replay.what_waits(platform));
  }

  const Program& program_;
  const MessageLists& lists_;
  const Lanes lanes_;
  const std::uint32_t num_devices_;
  const bool timeline_;
  std::vector<std::size_t> first_;  ///< by task: its first step's index
  std::vector<double> done_s_;      ///< by step
  std::vector<Open> open_;          ///< by task
  std::vector<Route> routes_;       ///< by channel
  std::vector<Walker> walkers_;     ///< devices, then lanes
  std::vector<std::uint32_t> called_;
  std::vector<BusyTime> busy_;
  Measured measured_;
};

}  // namespace

Measured run_unshared(const Program& program, const Platform& platform, const MessageLists& lists, bool one_send,
                      bool timeline) {
  return Walk(program, platform, lists, one_send, timeline).run(platform);
}

}  // namespace fusion
