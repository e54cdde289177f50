#include "core/plan/plan.h"

#include "core/base/error.h"
#include "core/engine/native.h"
#include "core/plan/virtual_stages.h"
#include "core/program/lower.h"

namespace fusion {
namespace {

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
  request.compress = to_string(compression_of(config));
  request.micro_batches = config.micro_batches;
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

Compression compression_of(const RunConfig& config) {
  try {
    return parse_compression(config.compress);
  } catch (const std::invalid_argument& fault) {
    throw InputError("", "compress", fault.what());
  }
}

Schedule make_schedule(const RunConfig& config, const Problem& problem) {
  const auto& [graph, costs, platform] = problem;
  const Compression compression = compression_of(config);
  Schedule schedule = request_of(config);
  const Order order = find_order(config.order, config.micro_batches);
  schedule.stages =
      with_chunks(order, find_policy(config.policy).place({graph, costs, platform, schedule, compression}),
                  config.training, graph, costs, platform);
  schedule.edges = cut_edges(graph, schedule.stages);
  validate(schedule, graph, platform, "policy " + config.policy);
  compression.row->apply(schedule, compression.ratio, graph, costs, platform);

  require_memory(schedule, graph, stage_costs(schedule, graph, costs, platform), platform);
  schedule.predicted_iteration = predicted_iteration(schedule, problem);
  return schedule;
}

Seconds predicted_iteration(const Schedule& schedule, const Problem& problem) {
  const auto& [graph, costs, platform] = problem;
  const Order order = find_order(schedule.order);
  if (order.chunks == 1 && !order.splits_backward)
    return predict(schedule, graph, stage_costs(schedule, graph, costs, platform), platform).iteration;
  return native_iteration(lower(schedule, graph, costs, platform), platform, NativeNetwork::no_share);
}

}  // namespace fusion
