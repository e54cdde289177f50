#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>

#include "core/plan/exchange.h"
#include "core/plan/stage_costs.h"
#include "core/plan/traffic.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

const ChannelBetween* channel(const Resource& resource) { return std::get_if<ChannelBetween>(&resource.what); }

/// One micro-batch alone: forward through the stages, and back.
struct Passage {
  Seconds fill{};                   ///< until the last backward ends
  std::vector<Seconds> round_trip;  ///< per stage, from the start of its forward to the end of its backward
  std::vector<Seconds> done;        ///< per stage, until the end of its backward
};

/// Channels are sorted by the earlier of their two stages, so a stage is done before the channels that leave it are
/// looked at.
Passage pass_alone(const std::vector<StageCosts>& costs, const Traffic& traffic) {
  std::vector<Seconds> done(costs.size()), ready(costs.size());
  auto next = traffic.resources.begin();
  for (std::size_t s = 0; s < costs.size(); ++s) {
    done[s] = ready[s] + costs[s].forward_pass();
    for (; next != traffic.resources.end(); ++next) {
      const ChannelBetween* between = channel(*next);
      if (between == nullptr || between->to < between->from) continue;
      if (between->from.index() != s) break;
      Seconds& start = ready[between->to.index()];
      start = std::max(start, done[s] + next->latency + next->busy());
    }
  }
  auto last = traffic.resources.rbegin();
  for (std::size_t s = costs.size(); s-- > 0;) {
    for (; last != traffic.resources.rend(); ++last) {
      const ChannelBetween* between = channel(*last);
      if (between == nullptr || between->from < between->to) continue;
      if (between->to.index() != s) break;
      done[s] = std::max(done[s], done[between->from.index()] + last->latency + last->busy());
    }
    done[s] += costs[s].backward_pass();
  }
  Passage passage{*std::ranges::max_element(done), {}, done};
  for (std::size_t s = 0; s < costs.size(); ++s) passage.round_trip.push_back(done[s] - ready[s]);
  return passage;
}

/// R_s of the stages and C of the channels to and from the next stage, for round trips that turn back halfway.
struct Line {
  std::vector<Seconds> stage, boundary;
};

Line line_of(const std::vector<StageCosts>& costs, const Traffic& traffic) {
  Line line{{}, std::vector<Seconds>(costs.size())};
  for (const StageCosts& each : costs) line.stage.push_back(each.pass());
  for (const Resource& resource : traffic.resources) {
    const ChannelBetween* between = channel(resource);
    if (between == nullptr) continue;
    const auto [first, last] = std::minmax({between->from.index(), between->to.index()});
    if (last == first + 1) line.boundary[first] += resource.latency + resource.busy();
  }
  return line;
}

/// What sets the pace beside the busiest resource: a round trip with all that may be in flight on it.
struct Wait {
  Seconds following{};  ///< from the first micro-batch to the last
  Seconds pace{};
  std::size_t stage = 0;
  int in_flight = 0;
};

/// The pace of the stages s to e: micro-batch i + k_s starts at s after i came back through e, which took i + k_e - 1
/// first. So k_s - k_e + 1 micro-batches share the round trip from s to e. Spans beyond `longest_span` are left to the
/// round trip to the end, which `Passage` has.
void consider_spans(Wait& longest, const Line& line, const std::vector<int>& in_flight, std::size_t first,
                    std::size_t last, int micro_batches, Seconds bottleneck) {
  constexpr std::size_t longest_span = 16;
  const std::size_t end = std::min(last, first + longest_span);
  Seconds round_trip = line.stage[first];
  for (std::size_t e = first + 1; e < end; ++e) {
    round_trip += line.boundary[e - 1] + line.stage[e];
    const int shared = in_flight[first] - in_flight[e] + 1;
    const Seconds pace = std::max(bottleneck, round_trip / shared);
    const Seconds time = (in_flight[first] - 1) * bottleneck + (micro_batches - in_flight[first]) * pace;
    if (time > longest.following) longest = {time, pace, first, shared};
  }
}

/// Returns the time from the first micro-batch to the last, and names the round trip that sets the pace where one does:
/// a stage of 1F1B waits for gradients with all its micro-batches on the way.
Seconds find_pace(Prediction& prediction, const Passage& passage, const Line& line, const Schedule& schedule,
                  const Platform& platform) {
  const Order order = find_order(schedule.order);
  const int m = micro_batches_of_each(schedule);
  std::vector<int> in_flight;
  for (const StageRange& pipeline : pipelines(schedule.stages))
    for (int s = 0; s < static_cast<int>(pipeline.size()); ++s)
      in_flight.push_back(order.in_flight({static_cast<int>(pipeline.size()), s, m}));
  Wait longest{(m - 1) * prediction.bottleneck, {}, 0, 0};
  for (const StageRange& pipeline : pipelines(schedule.stages))
    for (std::size_t s = pipeline.first; s < pipeline.last; ++s) {
      const int k = in_flight[s];
      if (k >= m) continue;
      const Seconds round_trip = passage.round_trip[s];
      const Seconds time = following(m, k, prediction.bottleneck, round_trip);
      if (time > longest.following) longest = {time, round_trip / k, s, k};
      consider_spans(longest, line, in_flight, s, pipeline.last, m, prediction.bottleneck);
    }
  if (longest.in_flight > 0) {
    prediction.pace = longest.pace;
    prediction.pace_name = "the round trip from " + platform.device(schedule.stages[longest.stage].device).name +
                           " with " + std::to_string(longest.in_flight) +
                           (longest.in_flight == 1 ? " micro-batch" : " micro-batches") + " in flight";
  }
  return longest.following;
}

/// The busiest resource, where `stage_time` and `resource_time` say what one micro-batch takes of it.
template <class StageTime, class ResourceTime>
std::pair<Seconds, std::string> busiest(StageTime stage_time, ResourceTime resource_time, const Schedule& schedule,
                                        const Graph& graph, const std::vector<StageCosts>& costs,
                                        const Traffic& traffic, const Platform& platform) {
  const auto stage = std::ranges::max_element(costs, {}, stage_time);
  const auto resource = std::ranges::max_element(traffic.resources, {}, resource_time);
  if (resource != traffic.resources.end() && resource_time(*resource) > stage_time(*stage))
    return {resource_time(*resource), describe(*resource, schedule, platform)};
  const Stage& slowest = schedule.stages[static_cast<std::size_t>(stage - costs.begin())];
  return {stage_time(*stage), platform.device(slowest.device).name + " (" + stage_name(graph, slowest) + ")"};
}

/// Where all forwards come before all backwards, each phase has a bottleneck of its own, and they add up.
void find_bottleneck(Prediction& prediction, const Schedule& schedule, const Graph& graph,
                     const std::vector<StageCosts>& costs, const Traffic& traffic, const Platform& platform) {
  const auto find = [&](auto stage_time, auto resource_time) {
    return busiest(stage_time, resource_time, schedule, graph, costs, traffic, platform);
  };
  if (!find_order(schedule.order).phases_apart) {
    std::tie(prediction.bottleneck, prediction.bottleneck_name) =
        find([](const StageCosts& c) { return c.pass(); }, [](const Resource& r) { return r.busy(); });
    return;
  }
  const auto [forward, forward_name] = find([](const StageCosts& c) { return c.forward + c.forward_codec; },
                                            [](const Resource& r) { return r.forward_busy(); });
  const auto [backward, backward_name] =
      find([](const StageCosts& c) { return c.backward_pass(); }, [](const Resource& r) { return r.backward_busy(); });
  prediction.bottleneck = forward + backward;
  prediction.bottleneck_name = forward_name == backward_name ? forward_name : forward_name + " and " + backward_name;
}

/// How long the sums of gradients take beyond the last backward of all. A stage's own last backward ends earlier by as
/// much as that of a single micro-batch does, and then its device begins with what it holds.
Seconds exchange(const Schedule& schedule, const Graph& graph, const Platform& platform, const Passage& passage) {
  const auto device = [&](StageId id) { return schedule.stages[id.index()].device; };
  std::map<DeviceId, Seconds> free;  // counted from the last backward of all, so negative before it
  std::map<LinkId, Bytes> shared;    // what all exchanges together put on a link
  Seconds first{}, last{};
  for (const Exchange& each : exchanges(schedule, graph)) {
    Seconds time = -1 * passage.fill;
    for (const StageId id : each.stages) {
      time = std::max(time, passage.done[id.index()] - passage.fill);
      if (const auto busy = free.find(device(id)); busy != free.end()) time = std::max(time, busy->second);
    }
    first = std::min(first, time);
    const Group group = group_of(each, schedule, platform);
    const std::vector<Transfer> list = transfers(each, schedule, platform);
    for (const Transfer& one : list)
      for (const LinkId link : route(platform, group.devices[one.from], group.devices[one.to]))
        if (platform.link(link).shared) shared[link] += Bytes((one.end - one.begin) * each.bucket.bytes_per_element);
    time += all_reduce_time(list, group, each.bucket.bytes_per_element);
    for (const StageId id : each.first) free[device(id)] = time;
    last = std::max(last, time);
  }
  for (const auto& [link, bytes] : shared) last = std::max(last, first + bytes / platform.link(link).bandwidth);
  return last;
}

}  // namespace

Seconds following(int micro_batches, int in_flight, Seconds bottleneck, Seconds round_trip) {
  const int waves = (micro_batches - 1) / in_flight, rest = (micro_batches - 1) % in_flight;
  return waves * std::max(round_trip, in_flight * bottleneck) + rest * bottleneck;
}

Prediction predict(const Schedule& schedule, const Graph& graph, const std::vector<StageCosts>& costs,
                   const Platform& platform) {
  const Traffic crossing = traffic(schedule, graph, platform);
  Prediction prediction;
  const Passage passage = pass_alone(costs, crossing);
  prediction.fill = passage.fill;
  prediction.exchange = exchange(schedule, graph, platform, passage);
  find_bottleneck(prediction, schedule, graph, costs, crossing, platform);
  prediction.pace = prediction.bottleneck;
  prediction.pace_name = prediction.bottleneck_name;
  const Seconds others = find_pace(prediction, passage, line_of(costs, crossing), schedule, platform);
  const Seconds update = std::ranges::max(costs, {}, &StageCosts::update).update;
  prediction.iteration = prediction.fill + others + prediction.exchange + update;
  return prediction;
}

}  // namespace fusion
