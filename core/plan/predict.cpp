#include <algorithm>
#include <ranges>

#include "core/plan/stage_costs.h"
#include "core/plan/traffic.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

const ChannelBetween* channel(const Resource& resource) { return std::get_if<ChannelBetween>(&resource.what); }

/// One micro-batch alone: forward through the stages, and back. Channels are sorted by the earlier of their two
/// stages, so a stage is done before the channels that leave it are looked at.
Seconds fill(const std::vector<StageCosts>& costs, const Traffic& traffic) {
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
  return *std::ranges::max_element(done);
}

void find_bottleneck(Prediction& prediction, const Schedule& schedule, const Graph& graph,
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

Prediction predict(const Schedule& schedule, const Graph& graph, const std::vector<StageCosts>& costs,
                   const Platform& platform) {
  const Traffic crossing = traffic(schedule, graph, platform);
  Prediction prediction;
  prediction.fill = fill(costs, crossing);
  prediction.exchange = exchange(schedule, graph, platform);
  find_bottleneck(prediction, schedule, graph, costs, crossing, platform);
  const Seconds update = std::ranges::max(costs, {}, &StageCosts::update).update;
  prediction.iteration =
      prediction.fill + (schedule.micro_batches - 1) * prediction.bottleneck + prediction.exchange + update;
  return prediction;
}

}  // namespace fusion
