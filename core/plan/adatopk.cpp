#include "core/plan/adatopk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/plan/codec.h"
#include "core/plan/stage_costs.h"
#include "core/plan/traffic.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

Codec& codec_of(Schedule& schedule, const Message& message) {
  CutEdge& edge = schedule.edges[message.edge];
  return message.gradient ? edge.gradient : edge.activation;
}

const Tensor& tensor_of(const Schedule& schedule, const Graph& graph, const Message& message) {
  return graph.tensor(schedule.edges[message.edge].tensor);
}

void make_dense(Schedule& schedule) {
  for (CutEdge& edge : schedule.edges) edge.activation = edge.gradient = Codec{};
}

/// A message while its ratio is being looked for.
struct Load {
  const Tensor* tensor = nullptr;
  std::int64_t elements = 0, dense_bytes = 0, wire_bytes = 0;
  Codec codec = {};
  bool compressible() const { return tensor->dtype != DType::int64; }

  void use(Codec next) {
    codec = next;
    wire_bytes = fusion::wire_bytes(*tensor, next).value;
  }
};

/// A ratio that keeps as many elements, and is made of that count.
Codec keeping(std::int64_t elements, double ratio) {
  return {CodecKind::topk, static_cast<double>(elements) / static_cast<double>(kept_elements(elements, ratio))};
}

/// Finds the lowest ratios for which no resource takes longer than `target`.
class Slack {
 public:
  Slack(const Schedule& dense, const Graph& graph, const Platform& platform)
      : traffic_(traffic(dense, graph, platform)) {
    for (const Message& each : traffic_.messages) {
      const Tensor& tensor = tensor_of(dense, graph, each);
      loads_.push_back({.tensor = &tensor,
                        .elements = num_elements(tensor.shape),
                        .dense_bytes = each.dense.value,
                        .wire_bytes = each.dense.value});
    }
    crossing_.resize(traffic_.resources.size());
    for (std::size_t m = 0; m < loads_.size(); ++m)
      for (const std::size_t r : traffic_.resources_of(m)) crossing_[r].push_back(m);
  }

  void solve(Seconds target) {
    target_ = target;
    for (Load& load : loads_) load.use({});
    for (std::size_t r = 0; r < traffic_.resources.size(); ++r) relieve(r);
    for (std::size_t m = 0; m < loads_.size(); ++m) use_slack(m);
  }

  void write(Schedule& schedule) const {
    for (std::size_t m = 0; m < loads_.size(); ++m) codec_of(schedule, traffic_.messages[m]) = loads_[m].codec;
  }

 private:
  std::int64_t capacity(std::size_t resource) const {
    const double bytes = target_.value * traffic_.resources[resource].bandwidth.value;
    return static_cast<std::int64_t>(std::min(bytes, 9e18));
  }

  std::int64_t bytes_at(std::size_t message, double ratio) const {
    const Load& load = loads_[message];
    if (!load.compressible()) return load.wire_bytes;
    return std::min(load.wire_bytes, wire_bytes(*load.tensor, {CodecKind::topk, ratio}).value);
  }

  std::int64_t bytes_on(std::size_t resource, double ratio) const {
    std::int64_t sum = 0;
    for (const std::size_t m : crossing_[resource]) sum += bytes_at(m, ratio);
    return sum;
  }

  std::int64_t bytes_on(std::size_t resource) const {
    std::int64_t sum = 0;
    for (const std::size_t m : crossing_[resource]) sum += loads_[m].wire_bytes;
    return sum;
  }

  /// Gives what crosses an overfull resource one ratio, the lowest that makes it fit; what is smaller already stays.
  void relieve(std::size_t resource) {
    if (bytes_on(resource) <= capacity(resource)) return;
    double low = 1, high = static_cast<double>(max_elements_on(resource));
    constexpr int halvings = 60;
    for (int i = 0; i < halvings && high > low * (1 + 1e-12); ++i) {
      const double middle = std::sqrt(low * high);
      (bytes_on(resource, middle) <= capacity(resource) ? high : low) = middle;
    }
    for (const std::size_t m : crossing_[resource])
      if (bytes_at(m, high) < loads_[m].wire_bytes) loads_[m].use(keeping(loads_[m].elements, high));
  }

  std::int64_t max_elements_on(std::size_t resource) const {
    std::int64_t most = 1;
    for (const std::size_t m : crossing_[resource]) most = std::max(most, loads_[m].elements);
    return most;
  }

  /// A message that another resource made smaller leaves room on this one: what is compressed takes what is left.
  void use_slack(std::size_t message) {
    Load& load = loads_[message];
    if (load.codec == Codec{}) return;
    std::int64_t room = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t r : traffic_.resources_of(message)) room = std::min(room, capacity(r) - bytes_on(r));
    if (room <= 0) return;
    const std::int64_t allowed = load.wire_bytes + std::min(room, load.dense_bytes);
    load.use(allowed >= load.dense_bytes ? Codec{} : topk_within(*load.tensor, Bytes(allowed)));
  }

  Traffic traffic_;
  std::vector<Load> loads_;                         // by message
  std::vector<std::vector<std::size_t>> crossing_;  // messages by resource
  Seconds target_{};
};

Seconds busiest_device(std::vector<StageCosts> costs, const Schedule& schedule, const Graph& graph,
                       const Platform& platform) {
  add_edge_costs(costs, schedule, graph, platform);
  return std::ranges::max(costs, {}, &StageCosts::pass).pass();
}

/// topk_within for any sparse kind.
Codec sparse_within(CodecKind kind, const Tensor& tensor, Bytes limit) {
  const std::int64_t n = num_elements(tensor.shape);
  const auto keeping = [&](std::int64_t k) { return Codec{kind, static_cast<double>(n) / static_cast<double>(k)}; };
  std::int64_t low = 1, high = std::max<std::int64_t>(n, 1);
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (wire_bytes(tensor, keeping(middle)) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return keeping(low);
}

void adatopk_with(CodecKind kind, Schedule& schedule, double ratio, const Graph& graph, const Platform& platform) {
  make_dense(schedule);
  std::vector<std::pair<Message, Seconds>> compressible;
  Seconds slowest{};
  for (const Message& each : messages(schedule, graph)) {
    if (tensor_of(schedule, graph, each).dtype == DType::int64) continue;
    const auto device = [&](StageId id) { return schedule.stages[id.index()].device; };
    compressible.emplace_back(each, transfer_time(platform, device(each.from), device(each.to), each.dense));
    slowest = std::max(slowest, compressible.back().second);
  }
  for (const auto& [each, time] : compressible) {
    const double volume_ratio = ratio * (time / slowest);
    if (volume_ratio <= 1) continue;
    const Tensor& tensor = tensor_of(schedule, graph, each);
    const Codec codec = sparse_within(
        kind, tensor, Bytes(static_cast<std::int64_t>(static_cast<double>(each.dense.value) / volume_ratio)));
    if (wire_bytes(tensor, codec) < each.dense) codec_of(schedule, each) = codec;
  }
}

}  // namespace

void adatopk(Schedule& schedule, double ratio, const Graph& graph, const Costs&, const Platform& platform) {
  adatopk_with(CodecKind::topk, schedule, ratio, graph, platform);
}

void adatopk_int8(Schedule& schedule, double ratio, const Graph& graph, const Costs&, const Platform& platform) {
  adatopk_with(CodecKind::topk_int8, schedule, ratio, graph, platform);
}

void adatopk_slack(Schedule& schedule, double, const Graph& graph, const Costs& costs, const Platform& platform) {
  make_dense(schedule);
  std::vector<StageCosts> computing;
  for (const Stage& stage : schedule.stages)
    computing.push_back(compute_costs(stage, schedule.training, graph, costs, platform.gpu_of(stage.device)));
  const auto busiest = [&] { return busiest_device(computing, schedule, graph, platform); };

  // Coding takes time on the devices, which allows the links more, which may spare an edge its coding: the second
  // round takes that in. Where it spares so much that the devices get faster than their links, the first round stands.
  Slack slack(schedule, graph, platform);
  slack.solve(busiest());
  slack.write(schedule);
  const Schedule first = schedule;
  const Seconds target = busiest();
  slack.solve(target);
  slack.write(schedule);
  if (busiest() < target) schedule = first;
}

}  // namespace fusion
