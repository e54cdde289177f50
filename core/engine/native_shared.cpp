// The event loop. Slots of its timers: a device's step ends, a channel's message has left it, its oldest message on the
// way arrives. A channel delivers in order, so one slot per channel serves all that is on the way.
#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/engine/native_run.h"
#include "core/engine/replay.h"
#include "core/engine/shared_links.h"
#include "core/engine/timers.h"

namespace fusion {
namespace {

/// A channel: the message in it, and those that have left it and not arrived.
struct Wire {
  struct OnTheWay {
    Step send;
    double start_s, arrival_s;
  };
  Step send{};
  double start_s = 0, latency_s = 0;
  std::vector<OnTheWay> on_the_way{};
  std::size_t oldest = 0;  ///< of on_the_way
  BusyTime busy{};
};

struct Machine {
  Step step{};
  double start_s = 0;
};

class EventLoop {
 public:
  EventLoop(const Program& program, const Platform& platform, const std::vector<Route>& routes, bool sharing,
            bool timeline)
      : program_(program),
        replay_(program),
        num_devices_(static_cast<std::uint32_t>(program.devices.size())),
        num_channels_(static_cast<std::uint32_t>(routes.size())),
        links_(platform, routes, sharing),
        timers_(num_devices_ + 2 * std::size_t{num_channels_}),
        machines_(num_devices_),
        wires_(num_channels_),
        timeline_(timeline) {
    for (std::size_t c = 0; c < routes.size(); ++c) wires_[c].latency_s = routes[c].latency.value;
    measured_.device_busy.resize(num_devices_);
  }

  Measured run(const Platform& platform) {
    start_ready();
    while (!timers_.empty()) {
      now_s_ = timers_.next_s();
      while (!timers_.empty() && timers_.next_s() == now_s_) ring(timers_.pop());
      start_ready();
    }
    if (!replay_.finished())
      throw RuntimeFault("the simulation stopped at " + format(Seconds(now_s_)) +
                         " with work left:" + replay_.what_waits(platform));
    measured_.iteration = Seconds(now_s_);
    for (const Wire& wire : wires_) measured_.channel_busy.emplace_back(wire.busy.sum_s);
    return std::move(measured_);
  }

 private:
  void ring(std::uint32_t slot) {
    if (slot < num_devices_) return end_step(slot);
    if (slot < num_devices_ + num_channels_) return leave(slot - num_devices_);
    arrive(slot - num_devices_ - num_channels_);
  }

  void start_ready() {
    while (const auto start = replay_.take_ready())
      start->kind == Start::Kind::step ? start_step(start->place, start->step)
                                       : start_message(start->place, start->step);
    for (const SharedLinks::Change& change : links_.settle(now_s_))
      timers_.set(num_devices_ + change.channel, change.end_s);
  }

  void start_step(std::uint32_t device, Step step) {
    const Task& task = program_.task(step.task);
    const Seconds duration = task.duration + task.codec_duration;
    machines_[device] = {step, now_s_};
    measured_.device_busy[device] += duration;
    if (duration == Seconds(0)) return end_step(device);
    timers_.set(device, now_s_ + duration.value);
  }

  void end_step(std::uint32_t device) {
    record(machines_[device].step, machines_[device].start_s);
    replay_.step_ended(device);
  }

  void start_message(std::uint32_t channel, Step send) {
    Wire& wire = wires_[channel];
    wire.send = send;
    wire.start_s = now_s_;
    const Bytes bytes = program_.task(send.task).bytes;
    if (bytes == Bytes(0)) return pass_on(channel);
    links_.start(channel, static_cast<double>(bytes.value), now_s_);
  }

  void leave(std::uint32_t channel) {
    links_.end(channel);
    pass_on(channel);
  }

  /// The message travels on for its latency while the next one may enter.
  void pass_on(std::uint32_t channel) {
    Wire& wire = wires_[channel];
    wire.on_the_way.push_back({wire.send, wire.start_s, now_s_ + wire.latency_s});
    if (wire.on_the_way.size() - wire.oldest == 1) await_oldest(channel);
    replay_.channel_freed(channel);
  }

  void await_oldest(std::uint32_t channel) {
    const Wire& wire = wires_[channel];
    timers_.set(num_devices_ + num_channels_ + channel, wire.on_the_way[wire.oldest].arrival_s);
  }

  void arrive(std::uint32_t channel) {
    Wire& wire = wires_[channel];
    const Wire::OnTheWay message = wire.on_the_way[wire.oldest++];
    wire.busy.add(message.start_s, now_s_);
    record(message.send, message.start_s);
    if (timeline_) record({program_.task(message.send.task).match, message.send.micro_batch}, message.start_s);
    if (wire.oldest < wire.on_the_way.size()) await_oldest(channel);
    if (2 * wire.oldest >= wire.on_the_way.size()) {  // moves no more than it forgets
      wire.on_the_way.erase(wire.on_the_way.begin(),
                            wire.on_the_way.begin() + static_cast<std::ptrdiff_t>(wire.oldest));
      wire.oldest = 0;
    }
    replay_.arrived(message.send);
  }

  void record(Step step, double start_s) {
    if (timeline_) measured_.timeline.push_back({step.task, step.micro_batch, Seconds(start_s), Seconds(now_s_)});
  }

  const Program& program_;
  Replay replay_;
  const std::uint32_t num_devices_, num_channels_;
  SharedLinks links_;
  Timers timers_;
  std::vector<Machine> machines_;  ///< by Program::devices
  std::vector<Wire> wires_;        ///< by channels(program)
  const bool timeline_;
  double now_s_ = 0;
  Measured measured_;
};

}  // namespace

Measured run_shared(const Program& program, const Platform& platform, bool sharing, bool timeline) {
  std::vector<Route> routes;
  for (const Channel& channel : channels(program)) routes.push_back(route(platform, channel.from, channel.to));
  return EventLoop(program, platform, routes, sharing, timeline).run(platform);
}

}  // namespace fusion
