#include "core/plan/exchange.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/platform/platform.h"

namespace fusion {
namespace {

std::vector<StageId> stages_with(const Parameter& parameter, const std::vector<Stage>& stages) {
  std::vector<StageId> found;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (std::ranges::any_of(parameter.users, [&](OpId op) { return std::ranges::binary_search(stages[s].ops, op); }))
      found.emplace_back(s);
  return found;
}

std::vector<StageId> first_on_each_device(const std::vector<StageId>& stages, const Schedule& schedule) {
  const auto device = [&](StageId id) { return schedule.stages[id.index()].device; };
  std::vector<StageId> first;
  for (const StageId id : stages)
    if (std::ranges::none_of(first, [&](StageId known) { return device(known) == device(id); })) first.push_back(id);
  return first;
}

Bucket bucket_of(std::vector<ParameterId> parameters, const Graph& graph, const Training& training) {
  Bucket bucket{std::move(parameters), 0, size_of(compute_dtype(training.precision)), {}};
  for (const ParameterId p : bucket.parameters) bucket.num_elements += num_elements(graph.parameter(p).shape);
  bucket.name = graph.parameter(bucket.parameters.front()).name;
  if (bucket.parameters.size() > 1) bucket.name += " and " + std::to_string(bucket.parameters.size() - 1) + " more";
  return bucket;
}

}  // namespace

std::vector<Exchange> exchanges(const Schedule& schedule, const Graph& graph) {
  std::map<std::vector<StageId>, std::vector<ParameterId>, std::greater<>> by_stages;
  for (std::size_t p = 0; p < graph.parameters.size(); ++p) {
    if (schedule.replicas == 1 && graph.parameters[p].users.size() < 2) continue;
    by_stages[stages_with(graph.parameters[p], schedule.stages)].emplace_back(p);
  }
  std::vector<Exchange> all;
  for (auto& [stages, parameters] : by_stages) {
    std::vector<StageId> first = first_on_each_device(stages, schedule);
    if (first.size() > 1)
      all.push_back({stages, std::move(first), bucket_of(std::move(parameters), graph, schedule.training)});
  }
  return all;
}

Group group_of(const Exchange& exchange, const Schedule& schedule, const Platform& platform) {
  Group group{platform, {}};
  for (const StageId id : exchange.first) group.devices.push_back(schedule.stages[id.index()].device);
  return group;
}

std::vector<Transfer> transfers(const Exchange& exchange, const Schedule& schedule, const Platform& platform) {
  const Group group = group_of(exchange, schedule, platform);
  const Bucket& bucket = exchange.bucket;
  return transfers(choose_collective(schedule.collective, group, bucket.num_elements, bucket.bytes_per_element), group,
                   bucket.num_elements);
}

}  // namespace fusion
