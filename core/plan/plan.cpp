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

}  // namespace

Problem load_problem(const RunConfig& config) {
  ModelOptions options = config.model_options;
  options.dtype = compute_dtype(config.training.precision);
  Problem problem{.graph = load_model(config.model, options), .costs = {}, .platform = load_platform(config.platform)};
  problem.costs = estimate(problem.graph);
  if (config.devices > 0) problem.platform = first_devices(problem.platform, config.devices);
  if (!config.bandwidth.empty()) set_bandwidth(problem.platform, parse_bandwidth(config.bandwidth));
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
