#include "core/plan/plan.h"

#include <optional>

#include "core/base/error.h"
#include "core/engine/native.h"
#include "core/plan/compression_pair.h"
#include "core/plan/replicas.h"
#include "core/plan/virtual_stages.h"
#include "core/platform/groups.h"
#include "core/program/lower.h"

namespace fusion {
namespace {

CompressionPair pair_of(const RunConfig& config) {
  try {
    return parse_compression_pair(config.compress);
  } catch (const std::invalid_argument& fault) {
    throw InputError("", "compress", fault.what());
  }
}

/// The half of a schedule that is asked for.
Schedule request_of(const RunConfig& config) {
  Schedule request;
  request.model = config.model;
  request.model_options = config.model_options;
  request.model_options.dtype = compute_dtype(config.training.precision);
  request.platform = config.platform;
  request.platform_devices = config.devices;
  request.platform_bandwidth = config.bandwidth;
  request.policy = config.policy;
  request.order = config.order;
  request.compress = to_string(pair_of(config));
  request.micro_batches = config.micro_batches;
  request.replicas = config.replicas;
  request.collective = config.collective;
  request.training = config.training;
  request.seed = config.seed;
  return request;
}

/// What `load` gives; its fault begins with the place, if there is one, where that was asked for.
template <class Load>
auto asked_at(const std::string& place, Load load) {
  try {
    return load();
  } catch (const InputError& fault) {
    if (place.empty()) throw;
    throw InputError(place, "", fault.what());
  }
}

Platform platform_of(const ProblemOptions& options) {
  Platform platform = load_platform(options.platform);
  if (options.devices > 0) platform = first_devices(platform, options.devices);
  if (!options.bandwidth.empty()) set_bandwidth(platform, parse_bandwidth(options.bandwidth));
  return platform;
}

/// Stages of one pipeline on some devices of the platform.
std::vector<Stage> place_on(const std::vector<DeviceId>& devices, Schedule request, const Problem& problem,
                            const Compression& compression) {
  const Platform part = only_devices(problem.platform, devices);
  request.micro_batches = micro_batches_of_each(request);
  request.replicas = 1;
  const std::vector<Stage> shares =
      find_policy(request.policy).place({problem.graph, problem.costs, part, request, compression});
  std::vector<Stage> stages = with_chunks(find_order(request.order, request.micro_batches), shares, request.training,
                                          problem.graph, problem.costs, part);
  for (Stage& stage : stages) stage.device = devices[stage.device.index()];
  return stages;
}

/// Each replica's pipeline by the policy, on the devices that the division gives it.
std::vector<Stage> place_replicas(const Division& division, const Schedule& request, const Problem& problem,
                                  const Compression& compression) {
  std::vector<Stage> all;
  for (std::size_t replica = 0; replica < division.size(); ++replica)
    for (Stage& stage : place_on(division[replica], request, problem, compression)) {
      stage.replica = static_cast<int>(replica);
      all.push_back(std::move(stage));
    }
  return all;
}

/// The rest of a decision, once it is placed.
Schedule completed(Schedule schedule, const Problem& problem) {
  const auto& [graph, costs, platform] = problem;
  schedule.edges = cut_edges(graph, schedule.stages);
  validate(schedule, graph, platform, "policy " + schedule.policy);
  compress_edges(schedule, parse_compression_pair(schedule.compress), graph, costs, platform);
  require_memory(schedule, graph, stage_costs(schedule, graph, costs, platform), platform);
  schedule.predicted_iteration = predicted_iteration(schedule, problem);
  return schedule;
}

}  // namespace

Problem load_problem(const ProblemOptions& options) {
  ModelOptions model_options = options.model_options;
  model_options.dtype = compute_dtype(options.training.precision);
  Problem problem{
      .graph = asked_at(options.model_place, [&] { return load_model(options.model, model_options); }),
      .costs = {},
      .platform = asked_at(options.platform_place, [&] { return platform_of(options); }),
  };
  problem.costs = estimate(problem.graph);
  return problem;
}

Compression compression_of(const RunConfig& config) { return pair_of(config).activations; }

Schedule make_schedule(const RunConfig& config, const Problem& problem) {
  const Compression compression = compression_of(config);
  const Schedule request = request_of(config);
  require_even_shares(request, "");
  std::optional<Schedule> best;
  std::optional<Infeasible> why_not;
  for (const Division& division : divisions(problem.platform, request.replicas)) {
    try {
      Schedule next = request;
      next.stages = place_replicas(division, request, problem, compression);
      next = completed(std::move(next), problem);
      if (!best || next.predicted_iteration < best->predicted_iteration) best = std::move(next);
    } catch (const Infeasible& reason) {
      if (!why_not) why_not = reason;
    }
  }
  if (!best) throw *why_not;
  return std::move(*best);
}

Seconds predicted_iteration(const Schedule& schedule, const Problem& problem) {
  const auto& [graph, costs, platform] = problem;
  if (find_order(schedule.order).is_plain())
    return predict(schedule, graph, stage_costs(schedule, graph, costs, platform), platform).iteration;
  return native_iteration(lower(schedule, graph, costs, platform), platform, NativeNetwork::no_share);
}

}  // namespace fusion
