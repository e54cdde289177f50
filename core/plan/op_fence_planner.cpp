#include "core/plan/op_fence_planner.h"

#include <algorithm>
#include <map>

#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

/// How many of the pipeline's boundary transfers cross each shared link, were all devices in use.
class LinkUse {
 public:
  LinkUse(const Platform& platform, std::span<const DeviceId> order) : platform_(platform) {
    for (std::size_t p = 0; p + 1 < order.size(); ++p) {
      add(route(platform, order[p], order[p + 1]));
      add(route(platform, order[p + 1], order[p]));
    }
  }

  Direction direction(DeviceId from, DeviceId to) const {
    const Route way = route(platform_, from, to);
    double slowest = 1 / way.bandwidth.value;
    for (const LinkId link : way)
      if (const auto use = uses_.find(link); use != uses_.end())
        slowest = std::max(slowest, use->second / platform_.link(link).bandwidth.value);
    return {way.latency.value, 1 / way.bandwidth.value, slowest * way.bandwidth.value};
  }

 private:
  void add(const Route& way) {
    for (const LinkId link : way)
      if (platform_.link(link).shared) uses_[link] += 1;
  }

  const Platform& platform_;
  std::map<LinkId, double> uses_;
};

}  // namespace

std::vector<TiedParameter> tied_parameters(const PolicyInput& input, std::span<const Unit> units) {
  const std::vector<std::size_t> unit_of = unit_of_ops(input.graph, units);
  const std::int64_t element = size_of(compute_dtype(input.request.training.precision));
  std::vector<TiedParameter> tied;
  for (const Parameter& parameter : input.graph.parameters) {
    if (parameter.users.size() < 2) continue;
    TiedParameter& each = tied.emplace_back();
    each.size = Bytes(num_elements(parameter.shape) * element);
    for (const OpId user : parameter.users) each.units.push_back(unit_of[user.index()]);
    std::ranges::sort(each.units);
  }
  return tied;
}

TypicalMessage typical_message(const Line& line) {
  const auto median = [](std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return Bytes(static_cast<std::int64_t>(*middle));
  };
  return {median(line.forward_bytes), median(line.backward_bytes)};
}

Planner::Planner(const PolicyInput& input, const Line& line, std::vector<TiedParameter> tied, double memory_scale)
    : input_(input), line_(line), tied_(std::move(tied)), memory_scale_(memory_scale) {}

std::vector<Seat> Planner::seats(std::span<const DeviceId> order, bool may_stop_early) const {
  const Order row = find_order(input_.request.order);
  const int num_stages = static_cast<int>(order.size());
  std::vector<Seat> seats;
  for (int s = 0; s < num_stages; ++s) {
    const DeviceId device = order[static_cast<std::size_t>(s)];
    const int stage = may_stop_early ? 0 : s;
    seats.push_back({input_.platform.device(device).gpu.index(),
                     memory_scale_ * static_cast<double>(input_.platform.gpu_of(device).memory.value),
                     static_cast<double>(row.in_flight({num_stages, stage, input_.request.micro_batches}))});
  }
  return seats;
}

std::vector<Hop> Planner::hops(std::span<const DeviceId> order) const {
  const LinkUse use(input_.platform, order);
  std::vector<Hop> hops;
  for (std::size_t p = 0; p + 1 < order.size(); ++p)
    hops.push_back({use.direction(order[p], order[p + 1]), use.direction(order[p + 1], order[p])});
  return hops;
}

/// Every holder of a tied parameter sends it to every other; the slowest pair decides.
double Planner::exchange_s(const Pipeline& pipeline) const {
  double slowest = 0;
  for (const TiedParameter& parameter : tied_) {
    std::vector<DeviceId> holders;
    for (std::size_t k = 0; k < pipeline.devices.size(); ++k) {
      const auto first = std::ranges::lower_bound(parameter.units, pipeline.cuts[k]);
      if (first != parameter.units.end() && *first < pipeline.cuts[k + 1]) holders.push_back(pipeline.devices[k]);
    }
    for (const DeviceId from : holders)
      for (const DeviceId to : holders)
        if (from != to) slowest = std::max(slowest, transfer_time(input_.platform, from, to, parameter.size).value);
  }
  return slowest;
}

/// predict() on the line: fill, and what the bottleneck or the round trips let follow.
double Planner::estimate_s(const Partition& partition) const {
  const Order row = find_order(input_.request.order);
  const int num_stages = static_cast<int>(partition.seats.size()), micro_batches = input_.request.micro_batches;
  Seconds longest{};
  for (int s = 0; s < num_stages; ++s)
    longest = std::max(longest, following(micro_batches, row.in_flight({num_stages, s, micro_batches}),
                                          Seconds(partition.bottleneck_s),
                                          Seconds(partition.round_trip_s[static_cast<std::size_t>(s)])));
  return partition.fill_s + longest.value;
}

std::optional<Pipeline> Planner::cut(std::span<const DeviceId> order, const CutEffort& effort) const {
  IterationOptions options{.micro_batches = input_.request.micro_batches,
                           .step = effort.step,
                           .pricing = pricing_of(input_.compression),
                           .may_stop_early = effort.may_stop_early,
                           .max_bounds = effort.max_bounds,
                           .first_bound_s = effort.first_bound_s,
                           .score = [this](const Partition& partition) { return estimate_s(partition); }};
  const auto found = min_iteration(line_, seats(order, effort.may_stop_early), hops(order), options);
  if (!found) return {};
  Pipeline pipeline;
  for (const std::size_t seat : found->seats) pipeline.devices.push_back(order[seat]);
  pipeline.cuts = found->cuts;
  pipeline.bottleneck_s = found->bottleneck_s;
  pipeline.estimate_s = estimate_s(*found) + exchange_s(pipeline);
  return pipeline;
}

}  // namespace fusion
