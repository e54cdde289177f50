#include "bench/heap_engine.h"

#include <queue>
#include <vector>

#include "core/base/error.h"
#include "core/engine/replay.h"
#include "core/report/report.h"

namespace fusion::bench {
namespace {

struct Event {
  enum class Kind : std::uint8_t { step_ends, channel_frees, message_arrives };
  double time_s;
  std::uint64_t number;  ///< events of one moment keep the order in which they were made
  Kind kind;
  std::uint32_t place;
  Step step;
  bool operator>(const Event& o) const { return time_s != o.time_s ? time_s > o.time_s : number > o.number; }
};

}  // namespace

Seconds run_on_heap(const Program& program, const Platform& platform) {
  std::vector<Route> routes;
  for (const Channel& channel : channels(program)) routes.push_back(route(platform, channel.from, channel.to));
  Replay replay(program);
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  double now_s = 0;
  std::uint64_t made = 0;
  const auto push = [&](double time_s, Event::Kind kind, const Start& start) {
    events.push({time_s, made++, kind, start.place, start.step});
  };
  while (true) {
    while (const auto start = replay.take_ready()) {
      const Task& task = program.task(start->step.task);
      if (start->kind == Start::Kind::step) {
        push(now_s + (task.duration + task.codec_duration).value, Event::Kind::step_ends, *start);
        continue;
      }
      const Route& path = routes[start->place];
      const double freed_s = now_s + (task.bytes / path.bandwidth).value;
      push(freed_s, Event::Kind::channel_frees, *start);
      push(freed_s + path.latency.value, Event::Kind::message_arrives, *start);
    }
    if (events.empty()) break;
    const Event event = events.top();
    events.pop();
    now_s = event.time_s;
    switch (event.kind) {
      case Event::Kind::step_ends:
        replay.step_ended(event.place);
        break;
      case Event::Kind::channel_frees:
        replay.channel_freed(event.place);
        break;
      case Event::Kind::message_arrives:
        replay.arrived(event.step);
        break;
    }
  }
  check(replay.finished(), "the baseline stopped with work left");
  return Seconds(now_s);
}

}  // namespace fusion::bench
