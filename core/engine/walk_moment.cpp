#include "core/engine/walk_moment.h"

#include <algorithm>

namespace fusion {
namespace {

/// Everything, always in the same order. A visitor has `walker`, `edge` and `channel`, each called before the times of
/// such a one, and `time`, `sum`.
template <class Visitor>
void visit(WalkMoment& moment, Visitor& visitor) {
  for (Walker& walker : moment.walkers) {
    visitor.walker(walker);
    visitor.time(walker.free);
  }
  for (std::size_t e = 0; e < moment.pending.num_edges(); ++e) {
    PendingEdge& edge = moment.pending[e];
    visitor.edge(edge.gathers ? edge.size : edge.low, edge.gathers ? 0 : edge.size);
    moment.pending.for_each(edge, [&](Time& time) { visitor.time(time); });
  }
  for (ChannelTime& channel : moment.channels) {
    visitor.channel();
    visitor.time(channel.last_arrival);
    visitor.sum(channel.busy_s);
  }
  for (double& busy_s : moment.device_busy_s) visitor.sum(busy_s);
}

struct Reader {
  WalkState& state;
  void walker(const Walker& walker) {
    const auto number = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
    state.counts.push_back(walker.next.rounds_begun());
    state.shape.insert(state.shape.end(),
                       {number(walker.next.block_index()), number(walker.next.index_in_round()), walker.waits_on});
  }
  void edge(std::uint32_t count, std::uint32_t size) {
    state.counts.push_back(count);
    state.shape.push_back(size);
  }
  void channel() {}
  void time(const Time& time) {
    state.times_s.push_back(time.at_s);
    state.growth_s.push_back(time.grows_s);
  }
  void sum(double value) { state.sums_s.push_back(value); }
};

struct Grower {
  const std::vector<double>& growth_s;
  std::size_t at = 0;
  void walker(const Walker&) {}
  void edge(std::uint32_t, std::uint32_t) {}
  void channel() {}
  void time(Time& time) { time.grows_s = growth_s[at++]; }
  void sum(double) {}
};

/// Moves counts and sums; `Times` says how much a time grows.
template <class Times>
struct Skipper {
  const WalkState& change;
  std::uint32_t periods;
  Times times;
  std::size_t counts = 0, sums = 0;
  void walker(Walker& walker) {
    const std::uint32_t rounds = change.counts[counts++];
    if (periods * rounds > 0) walker.next.skip_rounds(periods * rounds);
    times.moves(rounds != 0);
  }
  void edge(std::uint32_t& count, std::uint32_t) {
    const std::uint32_t instances = change.counts[counts++];
    count += periods * instances;
    times.moves(instances != 0);
  }
  void channel() { times.next_channel(); }
  void time(Time& time) { time = {time.at_s + periods * times.growth_s(), 0}; }
  void sum(double& value) { value += periods * change.sums_s[sums++]; }
};

struct EachTime {
  const std::vector<double>& changes_s;
  std::size_t at = 0;
  void moves(bool) {}
  void next_channel() {}
  double growth_s() { return changes_s[at++]; }
};

struct AlikeTime {
  const WalkState& change;
  double alike_s;
  std::size_t channel;  ///< the next one's place among the times of `change`
  bool moving = false;
  void moves(bool does) { moving = does; }
  void next_channel() { moving = change.times_s[channel++] != 0; }
  double growth_s() const { return moving ? alike_s : 0; }
};

}  // namespace

WalkMoment start_of(const Program& program, const WalkGraph& graph) {
  WalkMoment moment{{}, pending_times(program, graph), {}, {}};
  moment.walkers.reserve(graph.lists.size());
  for (const StepList& list : graph.lists) moment.walkers.push_back({list.begin()});
  moment.channels.resize(graph.num_channels);
  moment.device_busy_s.resize(graph.num_devices);
  return moment;
}

WalkState read(WalkMoment& moment) {
  WalkState state;
  Reader reader{state};
  visit(moment, reader);
  return state;
}

std::uint32_t periods_of_room(const WalkMoment& moment, const std::vector<std::uint32_t>& rounds) {
  std::uint32_t periods = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t w = 0; w < moment.walkers.size(); ++w) {
    if (rounds[w] == 0) continue;
    const StepList::Iterator& next = moment.walkers[w].next;
    periods = std::min(periods, (next.block().rounds - 1 - next.rounds_begun()) / rounds[w]);
  }
  return periods;
}

void set_growth(WalkMoment& moment, const std::vector<double>& growth_s) {
  Grower grower{growth_s};
  visit(moment, grower);
}

void skip(WalkMoment& moment, const WalkState& change, std::uint32_t periods) {
  Skipper<EachTime> skipper{change, periods, {change.times_s}};
  visit(moment, skipper);
}

void skip_alike(WalkMoment& moment, const WalkState& change, double growth_s, std::uint32_t periods) {
  const std::size_t first_channel = change.times_s.size() - moment.channels.size();
  Skipper<AlikeTime> skipper{change, periods, {change, growth_s, first_channel}};
  visit(moment, skipper);
}

}  // namespace fusion
