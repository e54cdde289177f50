#include <algorithm>
#include <ranges>

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
  Passage passage{*std::ranges::max_element(done), {}};
  for (std::size_t s = 0; s < costs.size(); ++s) passage.round_trip.push_back(done[s] - ready[s]);
  return passage;
}

/// Returns the time from the first micro-batch to the last, and names the round trip that sets the pace where one does:
/// a stage of 1F1B waits for gradients with all its micro-batches on the way.
Seconds find_pace(Prediction& prediction, const Passage& passage, const Schedule& schedule, const Platform& platform) {
  const OrderRow& order = find_order(schedule.order);
  const int num_stages = static_cast<int>(schedule.stages.size());
  Seconds longest = (schedule.micro_batches - 1) * prediction.bottleneck;
  for (int s = 0; s < num_stages; ++s) {
    const int in_flight = order.in_flight({num_stages, s, schedule.micro_batches});
    const Seconds round_trip = passage.round_trip[static_cast<std::size_t>(s)];
    const Seconds time = following(schedule.micro_batches, in_flight, prediction.bottleneck, round_trip);
    if (time <= longest) continue;
    longest = time;
    prediction.pace = round_trip / in_flight;
    prediction.pace_name = "the round trip from " +
                           platform.device(schedule.stages[static_cast<std::size_t>(s)].device).name + " with " +
                           std::to_string(in_flight) + " micro-batches in flight";
  }
  return longest;
}

void find_busiest(Prediction& prediction, const Schedule& schedule, const Graph& graph,
                  const std::vector<StageCosts>& costs, const Traffic& traffic, const Platform& platform) {
  const auto stage = std::ranges::max_element(costs, {}, &StageCosts::pass);
  const auto resource = std::ranges::max_element(traffic.resources, {}, &Resource::busy);
  if (resource != traffic.resources.end() && resource->busy() > stage->pass()) {
    prediction.bottleneck = resource->busy();
    prediction.bottleneck_name = describe(*resource, schedule, platform);
    return;
  }
  const Stage& busiest = schedule.stages[static_cast<std::size_t>(stage - costs.begin())];
  prediction.bottleneck = stage->pass();
  prediction.bottleneck_name = platform.device(busiest.device).name + " (" + stage_name(graph, busiest) + ")";
}

std::vector<StageId> holders(const Parameter& parameter, const std::vector<Stage>& stages) {
  std::vector<StageId> found;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (std::ranges::any_of(parameter.users, [&](OpId op) { return std::ranges::binary_search(stages[s].ops, op); }))
      found.emplace_back(s);
  return found;
}

/// Every holder of a tied parameter sends its dense gradient to every other, once per iteration (lower.h).
Seconds exchange(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  std::vector<Message> sent;
  const std::int64_t element = size_of(compute_dtype(schedule.training.precision));
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.users.size() < 2) continue;
    const std::vector<StageId> stages = holders(parameter, schedule.stages);
    const Bytes size(num_elements(parameter.shape) * element);
    for (const StageId from : stages)
      for (const StageId to : stages)
        if (from != to)
          sent.push_back({.edge = 0, .gradient = false, .from = from, .to = to, .dense = size, .wire = size});
  }
  std::ranges::stable_sort(sent, {}, [](const Message& each) { return std::pair(each.from, each.to); });
  Seconds longest{}, latency{};
  for (const Resource& each : traffic(schedule, platform, std::move(sent)).resources) {
    longest = std::max(longest, each.busy());
    latency = std::max(latency, each.latency);
  }
  return longest + latency;
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
  prediction.exchange = exchange(schedule, graph, platform);
  find_busiest(prediction, schedule, graph, costs, crossing, platform);
  prediction.pace = prediction.bottleneck;
  prediction.pace_name = prediction.bottleneck_name;
  const Seconds others = find_pace(prediction, passage, schedule, platform);
  const Seconds update = std::ranges::max(costs, {}, &StageCosts::update).update;
  prediction.iteration = prediction.fill + others + prediction.exchange + update;
  return prediction;
}

}  // namespace fusion
