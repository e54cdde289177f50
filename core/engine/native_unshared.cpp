// The longest path through a program. Each walker stops at the first step whose time is not known yet, and is called
// again when the time that it waits for is put on its edge.
//
// Where a list repeats itself often, the walk goes in sweeps, in which a device takes one round: so all devices come
// into a steady state together, and what repeats itself is skipped (steady_state.h).
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/engine/native_run.h"
#include "core/engine/replay.h"
#include "core/engine/steady_state.h"
#include "core/engine/walk_graph.h"

namespace fusion {
namespace {

/// Lists that repeat themselves less often come to their end before sweeps pay.
constexpr std::uint32_t rounds_worth_sweeping = 96;

/// A sweep keeps the moment after it; those of programs with more tasks than this would fill the memory.
constexpr std::size_t most_tasks_swept = 100'000;

/// Whether a task that is done for every micro-batch waits for one that is done once.
bool waits_for_one_step(const Program& program) {
  return std::ranges::any_of(program.tasks, [&](const Task& task) {
    return task.per_micro_batch &&
           std::ranges::any_of(task.after, [&](TaskId before) { return !program.task(before).per_micro_batch; });
  });
}

class Walk {
 public:
  Walk(const Program& program, const Platform& platform, const NativeOptions& options)
      : program_(program),
        graph_(walk_graph(program, platform, options.network == NativeNetwork::one_send)),
        now_(start_of(program, graph_)),
        timeline_(options.timeline),
        steady_(!waits_for_one_step(program)) {
    if (options.leap && !timeline_) plan_sweeps();
  }

  Measured run(const Platform& platform) {
    for (auto w = static_cast<std::uint32_t>(now_.walkers.size()); w-- > 0;) called_.push_back(w);
    follow_all();
    while (rounds_per_turn_ > 0 && !all_ended()) {
      if (steady_.after_sweep(now_, later_)) plan_sweeps();
      ++sweep_;
      call_paused();
      if (called_.empty()) break;
      follow_all();
    }
    for (const Walker& walker : now_.walkers)
      if (!walker.next.at_end()) throw_what_waits(platform);
    for (const double busy_s : now_.device_busy_s) measured_.device_busy.emplace_back(busy_s);
    for (const ChannelTime& channel : now_.channels) measured_.channel_busy.emplace_back(channel.busy_s);
    measured_.iteration = last();
    return std::move(measured_);
  }

 private:
  Seconds last() const {
    double last_s = 0;
    for (std::uint32_t d = 0; d < graph_.num_devices; ++d) last_s = std::max(last_s, now_.walkers[d].free.at_s);
    for (const ChannelTime& channel : now_.channels) last_s = std::max(last_s, channel.last_arrival.at_s);
    return Seconds(last_s);
  }

  bool all_ended() const {
    return std::ranges::all_of(now_.walkers, [](const Walker& walker) { return walker.next.at_end(); });
  }

  /// Devices that have taken their part of a sweep wait for nothing else.
  void call_paused() {
    for (std::uint32_t d = graph_.num_devices; d-- > 0;)
      if (!now_.walkers[d].next.at_end() && now_.walkers[d].waits_on == Walker::nothing) called_.push_back(d);
  }

  void follow_all() {
    while (!called_.empty()) {
      const std::uint32_t w = called_.back();
      called_.pop_back();
      w < graph_.num_devices ? follow_device(w) : follow_lane(w);
    }
  }

  /// When what a step waits for is complete, which is then forgotten. False while it isn't; the walker will be called.
  bool take_ready(std::uint32_t task, std::uint32_t micro_batch, Walker& walker, Time& ready) {
    const std::uint32_t first = graph_.nodes[task].first_in, end = graph_.nodes[task + 1].first_in;
    for (std::uint32_t e = first; e < end; ++e) {
      const PendingEdge& edge = now_.pending[e];
      const Time time = edge.gathers ? edge.front : now_.pending.peek(e, micro_batch);
      if (edge.gathers ? edge.size > 0 : time.at_s == PendingEdge::unknown_s) {
        walker.waits_on = e;
        return false;
      }
      ready = later_(ready, time);
    }
    for (std::uint32_t e = first; e < end; ++e)
      if (!now_.pending[e].gathers) now_.pending.take(e, micro_batch);
    return true;
  }

  /// Tells all who wait for the task. A lane that waits for a computation goes on at once: then its message's time need
  /// not be kept.
  void complete(std::uint32_t task, std::uint32_t micro_batch, Time time, bool lanes_at_once) {
    for (std::uint32_t i = graph_.nodes[task].first_out; i < graph_.nodes[task + 1].first_out; ++i) {
      const std::uint32_t e = graph_.out[i], w = graph_.waits[e];
      PendingEdge& edge = now_.pending[e];
      if (edge.gathers) {
        edge.front = later_(edge.front, time);
        if (--edge.size > 0) continue;
      } else {
        now_.pending.put(e, micro_batch, time);
      }
      if (now_.walkers[w].waits_on != e) continue;
      now_.walkers[w].waits_on = Walker::nothing;
      lanes_at_once&& w >= graph_.num_devices ? follow_lane(w) : called_.push_back(w);
    }
  }

  void follow_device(std::uint32_t w) {
    Walker& walker = now_.walkers[w];
    for (; !walker.next.at_end(); ++walker.next) {
      const bool begins = rounds_per_turn_ > 0 && begins_round(walker);
      if (begins && !may_begin(walker)) return;
      const Step step = *walker.next;
      Time ready;
      if (!take_ready(step.task.value, step.micro_batch, walker, ready)) return;
      if (begins) ++walker.rounds_begun;
      const double work_s = graph_.nodes[step.task.index()].work_s;
      const Time start = later_(ready, walker.free);
      walker.free = start + work_s;
      now_.device_busy_s[w] += work_s;
      record(step, start, walker.free);
      complete(step.task.value, step.micro_batch, walker.free, true);
    }
  }

  void follow_lane(std::uint32_t w) {
    Walker& walker = now_.walkers[w];
    for (; !walker.next.at_end(); ++walker.next) {
      const Step send = *walker.next;
      Time ready;
      if (!take_ready(send.task.value, send.micro_batch, walker, ready)) return;
      const WalkGraph::Node& node = graph_.nodes[send.task.index()];
      const Time start = later_(ready, walker.free);
      walker.free = start + node.work_s;
      const Time arrival = walker.free + node.latency_s;
      ChannelTime& channel = now_.channels[node.channel];
      channel.busy_s += arrival.at_s - later_(start, channel.last_arrival).at_s;
      channel.last_arrival = arrival;
      record(send, start, arrival);
      record({TaskId(std::size_t{node.match}), send.micro_batch}, start, arrival);
      complete(send.task.value, send.micro_batch, arrival, false);
      complete(node.match, send.micro_batch, arrival, false);
    }
  }

  void record(Step step, Time start, Time end) {
    if (timeline_) measured_.timeline.push_back({step.task, step.micro_batch, Seconds(start.at_s), Seconds(end.at_s)});
  }

  // Sweeps.

  static std::uint32_t stride(const StepList::Block& block) {
    return std::max(1U, std::min(block.stride, 0U - block.stride));
  }

  /// Where devices repeat themselves at different strides, one round of the longest is the pace of all.
  void plan_sweeps() {
    bool worth = false;
    rounds_per_turn_ = 1;
    for (std::uint32_t d = 0; d < graph_.num_devices; ++d) {
      const StepList::Iterator& next = now_.walkers[d].next;
      for (std::size_t b = next.block_index(); b < graph_.lists[d].blocks().size(); ++b) {
        const StepList::Block& block = graph_.lists[d].blocks()[b];
        const std::uint32_t begun = b == next.block_index() ? next.rounds_begun() : 0;
        worth |= block.rounds - begun >= rounds_worth_sweeping;
        if (block.rounds > 1) rounds_per_turn_ = std::max(rounds_per_turn_, stride(block));
      }
    }
    if (!worth || program_.tasks.size() > most_tasks_swept) rounds_per_turn_ = 0;
  }

  bool begins_round(const Walker& walker) const {
    return walker.next.index_in_round() == 0 && walker.next.block().rounds > 1;
  }
  bool may_begin(Walker& walker) const {
    if (std::exchange(walker.sweep, sweep_) != sweep_) walker.rounds_begun = 0;
    return walker.rounds_begun < std::max(1U, rounds_per_turn_ / stride(walker.next.block()));
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
    throw RuntimeFault("the simulation stopped at " + format(last()) +
                       " with work left:" + replay.what_waits(platform));
  }

  const Program& program_;
  const WalkGraph graph_;
  WalkMoment now_;
  const bool timeline_;
  std::vector<std::uint32_t> called_;
  Later later_;
  std::uint32_t rounds_per_turn_ = 0;  ///< of a list of stride 1; 0: no sweeps
  std::uint32_t sweep_ = 1;
  SteadyState steady_;
  Measured measured_;
};

}  // namespace

Measured run_unshared(const Program& program, const Platform& platform, const NativeOptions& options) {
  return Walk(program, platform, options).run(platform);
}

}  // namespace fusion
