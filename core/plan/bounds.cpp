#include "core/plan/bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/plan/compression_pair.h"
#include "core/plan/op_fence_fleet.h"
#include "core/plan/op_fence_line.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t max_groups = 600;
constexpr std::size_t num_levels = 48;  ///< prices are rounded down to so many

/// The ops of the heaviest path, and what follows from it.
struct Path {
  std::vector<OpId> ops;
  double least_s = 0;                  ///< its passes, each op on its fastest device
  std::vector<double> edge_bytes;      ///< sums of the smallest 0, 1, 2, … boundaries, both directions
  std::vector<double> smallest_bytes;  ///< the boundaries, ascending
};

/// Pass times by GPU type and op, and what is least.
struct Times {
  std::vector<std::vector<double>> pass_s;  ///< by GPU type, op
  std::vector<double> least_s;              ///< by op
  std::vector<double> least_waited_s;       ///< by op, without the weight gradient, for which nobody waits
  std::vector<double> weight;               ///< by GPU type: 1 / time of all ops
};

Times times_of(const PolicyInput& input) {
  const Training& training = input.request.training;
  std::vector<bool> present(input.platform.gpus.size());
  for (const Device& device : input.platform.devices) present[device.gpu.index()] = true;
  const std::vector<double> unknown(input.graph.ops.size(), infinity);
  Times times{{}, unknown, unknown, {}};
  for (std::size_t g = 0; g < present.size(); ++g) {
    std::vector<double>& pass = times.pass_s.emplace_back();
    for (std::size_t op = 0; op < input.graph.ops.size() && present[g]; ++op) {
      const OpTimes each =
          op_times(input.graph, input.costs, OpId(op), input.platform.gpus[g], compute_dtype(training.precision));
      pass.push_back((each.total() + (training.recompute ? each.forward : Seconds(0))).value);
      times.least_s[op] = std::min(times.least_s[op], pass.back());
      times.least_waited_s[op] = std::min(times.least_waited_s[op], pass.back() - each.weight_gradient.value);
    }
    times.weight.push_back(1 / std::max(std::accumulate(pass.begin(), pass.end(), 0.0), 1e-300));
  }
  return times;
}

/// Sum over the ops of min over the GPU types of weight x time.
double weighted_work(const Times& times, std::span<const OpId> ops) {
  double sum = 0;
  for (const OpId op : ops) {
    double least = infinity;
    for (std::size_t g = 0; g < times.pass_s.size(); ++g)
      if (!times.pass_s[g].empty()) least = std::min(least, times.weight[g] * times.pass_s[g][op.index()]);
    sum += least;
  }
  return sum;
}

/// Ops that no placement moves by themselves take no part.
bool works(const Op& op) { return op.kind != OpKind::input && op.kind != OpKind::label; }

std::vector<OpId> heaviest_path(const Graph& graph, const Times& times) {
  const std::size_t none = graph.ops.size();
  std::vector<double> longest(none);
  std::vector<std::size_t> before(none, none);
  std::size_t last = none;
  for (std::size_t op = 0; op < none; ++op) {
    if (!works(graph.ops[op])) continue;
    for (const TensorId input : graph.ops[op].inputs) {
      const std::size_t from = graph.tensor(input).producer.index();
      if (graph.tensor(input).needs_gradient && works(graph.ops[from]) &&
          (before[op] == none || longest[from] > longest[before[op]]))
        before[op] = from;
    }
    longest[op] = times.least_s[op] + (before[op] == none ? 0 : longest[before[op]]);
    if (last == none || longest[op] > longest[last]) last = op;
  }
  std::vector<OpId> path;
  for (std::size_t op = last; op != none; op = before[op]) path.emplace_back(op);
  std::ranges::reverse(path);
  return path;
}

/// What crosses from one op of the path to the next, there and back.
double boundary_bytes(const PolicyInput& input, OpId from, OpId to) {
  double most = 0;
  for (const TensorId id : input.graph.op(to).inputs) {
    const Tensor& tensor = input.graph.tensor(id);
    if (tensor.producer != from || !tensor.needs_gradient) continue;
    most = std::max(most, 2 * static_cast<double>(least_wire_bytes(tensor, input.compression).value));
  }
  return most;
}

Path path_of(const PolicyInput& input, const Times& times) {
  Path path;
  path.ops = heaviest_path(input.graph, times);
  const bool splits = find_order(input.request.order).splits_backward;
  for (const OpId op : path.ops) path.least_s += (splits ? times.least_waited_s : times.least_s)[op.index()];
  for (std::size_t i = 0; i + 1 < path.ops.size(); ++i)
    path.smallest_bytes.push_back(boundary_bytes(input, path.ops[i], path.ops[i + 1]));
  std::ranges::sort(path.smallest_bytes);
  path.edge_bytes.assign(1, 0);
  for (const double bytes : path.smallest_bytes) path.edge_bytes.push_back(path.edge_bytes.back() + bytes);
  return path;
}

/// How well devices can be joined: up to the price of each level, the most devices that n components have.
struct Level {
  double price = 0;                       ///< every pair of two components costs at least this
  std::vector<std::size_t> most_devices;  ///< of the n + 1 largest components
  std::size_t components_for(std::size_t num_devices) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(most_devices, num_devices) - most_devices.begin()) + 1;
  }
};

std::vector<double> levels_of(std::vector<double> prices) {
  std::ranges::sort(prices);
  const auto [end, last] = std::ranges::unique(prices);
  prices.erase(end, last);
  if (prices.size() <= num_levels) return prices;
  std::vector<double> chosen;
  for (std::size_t l = 0; l < num_levels; ++l) chosen.push_back(prices[l * prices.size() / num_levels]);
  return chosen;
}

/// `price(a, b)` between groups; the diagonal inside one. Components of what is cheaper than each level.
std::vector<Level> joined(const std::vector<DeviceGroup>& groups, const std::vector<std::vector<double>>& price) {
  std::vector<double> all;
  for (std::size_t a = 0; a < groups.size(); ++a)
    for (std::size_t b = a; b < groups.size(); ++b)
      if (a != b || groups[a].devices.size() > 1) all.push_back(price[a][b]);
  std::vector<Level> levels;
  std::vector<std::size_t> component(groups.size());
  std::iota(component.begin(), component.end(), std::size_t{0});
  for (const double limit : levels_of(all)) {
    for (std::size_t a = 0; a < groups.size(); ++a)
      for (std::size_t b = a + 1; b < groups.size(); ++b)
        if (price[a][b] < limit && component[a] != component[b])
          std::ranges::replace(component, std::size_t{component[a]}, std::size_t{component[b]});
    std::vector<std::size_t> sizes;
    std::vector<std::size_t> together(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool near = groups[g].devices.size() > 1 && price[g][g] < limit;
      together[component[g]] += near ? groups[g].devices.size() : 1;
      if (!near) sizes.insert(sizes.end(), groups[g].devices.size() - 1, 1);
    }
    for (const std::size_t size : together)
      if (size > 0) sizes.push_back(size);
    std::ranges::sort(sizes, std::greater{});
    std::partial_sum(sizes.begin(), sizes.end(), sizes.begin());
    levels.push_back({limit, std::move(sizes)});
  }
  return levels;
}

/// The prices of boundaries, in s per byte and in latency, there and back.
struct Network {
  std::vector<Level> per_byte, latency;
};

Network network_of(const PolicyInput& input) {
  const std::vector<DeviceGroup> groups = device_groups(input.platform);
  if (groups.size() > max_groups) return {};
  std::vector<std::vector<double>> per_byte(groups.size(), std::vector<double>(groups.size(), infinity));
  auto latency = per_byte;
  for (std::size_t a = 0; a < groups.size(); ++a)
    for (std::size_t b = a; b < groups.size(); ++b) {
      if (a == b && groups[a].devices.size() < 2) continue;
      const DeviceId from = groups[a].devices.front(), to = a == b ? groups[b].devices[1] : groups[b].devices.front();
      const Route there = route(input.platform, from, to), back = route(input.platform, to, from);
      const double ahead = 1 / there.bandwidth.value, behind = 1 / back.bandwidth.value;
      per_byte[a][b] = per_byte[b][a] = (ahead + behind) / 2;
      latency[a][b] = latency[b][a] = (there.latency + back.latency).value;
    }
  return {joined(groups, per_byte), joined(groups, latency)};
}

/// Boundaries between j devices: at least `components - 1` of them cost the price of a level.
struct Boundaries {
  double transfer_s = 0, busiest_s = 0;
};

Boundaries boundaries(const Network& network, const Path& path, std::size_t num_devices) {
  Boundaries sum;
  double below = 0;
  for (const Level& level : network.per_byte) {
    const std::size_t crossed = level.components_for(num_devices) - 1;
    sum.transfer_s += (level.price - below) * path.edge_bytes[crossed];
    // One direction of the busiest takes at least half of both.
    if (crossed > 0) sum.busiest_s = std::max(sum.busiest_s, level.price * path.smallest_bytes[crossed - 1] / 2);
    below = level.price;
  }
  below = 0;
  for (const Level& level : network.latency) {
    sum.transfer_s += (level.price - below) * static_cast<double>(level.components_for(num_devices) - 1);
    below = level.price;
  }
  return sum;
}

/// The largest first, summed up.
template <class Value>
std::vector<double> sums_of_largest(const PolicyInput& input, Value value) {
  std::vector<double> values;
  for (std::size_t d = 0; d < input.platform.devices.size(); ++d) values.push_back(value(DeviceId(d)));
  std::ranges::sort(values, std::greater{});
  std::partial_sum(values.begin(), values.end(), values.begin());
  return values;
}

double parameter_bytes(const PolicyInput& input, std::span<const OpId> ops) {
  std::vector<ParameterId> ids;
  for (const OpId op : ops)
    ids.insert(ids.end(), input.graph.op(op).parameters.begin(), input.graph.op(op).parameters.end());
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  double count = 0;
  for (auto id = ids.begin(); id != repeated.begin(); ++id)
    count += static_cast<double>(num_elements(input.graph.parameter(*id).shape));
  return count * static_cast<double>(bytes_per_parameter(input.request.training));
}

/// predict() where it is what a plan says; else what any sequence of the passes takes.
Seconds least_iteration(const PolicyInput& input, Seconds fill, Seconds bottleneck, int most_stages) {
  const Order order = find_order(input.request.order);
  const int m = micro_batches_of_each(input.request);
  if (!order.is_plain()) return std::max(fill, m * bottleneck);
  const int in_flight = std::min(m, order.in_flight({most_stages, 0, m}));
  return fill + std::max(following(m, in_flight, bottleneck, fill), (m - 1) * bottleneck);
}

}  // namespace

Seconds lower_bound(const PolicyInput& input) {
  const Times times = times_of(input);
  const Path path = path_of(input, times);
  const Network network = network_of(input);
  std::vector<OpId> all;
  for (std::size_t op = 0; op < input.graph.ops.size(); ++op) all.emplace_back(op);
  const auto weights =
      sums_of_largest(input, [&](DeviceId d) { return times.weight[input.platform.device(d).gpu.index()]; });
  const auto memory =
      sums_of_largest(input, [&](DeviceId d) { return static_cast<double>(input.platform.gpu_of(d).memory.value); });
  const double path_work = weighted_work(times, path.ops), path_memory = parameter_bytes(input, path.ops);
  // Replicas share the devices: the slowest has no more than its part of their speed.
  const double at_least = std::max(weighted_work(times, all) / (weights.back() / input.request.replicas),
                                   *std::ranges::max_element(times.least_s));
  const std::size_t most_devices = std::min(input.platform.devices.size(), path.ops.size());
  const std::size_t beside = static_cast<std::size_t>(std::ranges::count_if(input.graph.ops, works)) - path.ops.size();

  double least = infinity;
  for (std::size_t j = 1; j <= most_devices; ++j) {
    if (memory[j - 1] < path_memory && j < most_devices) continue;
    const Boundaries crossed = boundaries(network, path, j);
    const Seconds fill(path.least_s + crossed.transfer_s);
    const Seconds bottleneck(std::max({path_work / weights[j - 1], at_least, crossed.busiest_s}));
    const std::size_t most_stages = std::min(j + beside, input.platform.devices.size());
    least = std::min(least, least_iteration(input, fill, bottleneck, static_cast<int>(most_stages)).value);
  }
  return Seconds(least);
}

Seconds lower_bound(const Problem& problem, const Schedule& schedule) {
  const auto of = [&](const Compression& compression) {
    return lower_bound({problem.graph, problem.costs, problem.platform, schedule, compression});
  };
  const CompressionPair pair = parse_compression_pair(schedule.compress);
  return pair.gradients ? std::min(of(pair.activations), of(*pair.gradients)) : of(pair.activations);
}

double optimality_gap(Seconds time, Seconds bound) { return time / bound - 1; }

}  // namespace fusion
