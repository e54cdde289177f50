// Exhaustive search over placements, the slow way: what the policies are measured against, in tests and in bench/.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/plan/linear_order.h"
#include "core/plan/op_fence.h"
#include "core/plan/op_fence_judge.h"
#include "core/plan/op_fence_line.h"
#include "core/plan/policies.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {

inline constexpr double no_placement = std::numeric_limits<double>::infinity();

/// predict().bottleneck in seconds, edges dense.
inline double bottleneck_of(const PolicyInput& input, const std::vector<Stage>& stages) {
  Schedule schedule = input.request;
  schedule.stages = stages;
  schedule.edges = cut_edges(input.graph, schedule.stages);
  const auto costs = stage_costs(schedule, input.graph, input.costs, input.platform);
  return predict(schedule, input.graph, costs, input.platform).bottleneck.value;
}

/// Least bottleneck over the cuts of the file order, the first devices in file order, a unit each at least.
inline double exhaustive_chain_bottleneck(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < std::min(input.platform.devices.size(), units.size()); ++d) devices.emplace_back(d);
  double least = no_placement;
  std::vector<std::size_t> bounds = {0};
  const std::function<void()> extend = [&] {
    if (bounds.size() == devices.size()) {
      bounds.push_back(units.size());
      const std::vector<Stage> stages = cut_line(units, bounds, devices);
      if (judge(input, stages).fits()) least = std::min(least, bottleneck_of(input, stages));
      bounds.pop_back();
      return;
    }
    for (std::size_t next = bounds.back() + 1; next < units.size(); ++next) {
      bounds.push_back(next);
      extend();
      bounds.pop_back();
    }
  };
  extend();
  return least;
}

/// Least iteration time over every ordered choice of devices and every assignment of units to stages that only goes
/// forward, whether its parts are intervals of one order or not. Edges are dense. A lower bound (devices and channels,
/// no shared links, no exchange) keeps most placements from being judged; it never skips one that is better.
class ExhaustiveSearch {
 public:
  explicit ExhaustiveSearch(const PolicyInput& input) : input_(input), units_(linear_order(input.graph)) {
    const std::vector<std::size_t> unit_of = unit_of_ops(input.graph, units_);
    before_.resize(units_.size());
    for (const Tensor& tensor : input.graph.tensors)
      for (const OpId reader : tensor.consumers)
        before_[unit_of[reader.index()]].push_back(unit_of[tensor.producer.index()]);
    const DType dtype = compute_dtype(input.request.training.precision);
    for (std::size_t d = 0; d < num_devices(); ++d)
      for (const Unit& unit : units_) {
        Seconds forward{}, backward{};
        for (const OpId op : unit.ops) {
          const OpTimes times = op_times(input.graph, input.costs, op, input.platform.gpu_of(DeviceId(d)), dtype);
          forward += times.forward;
          backward += times.backward();
        }
        forward_s_.push_back(forward.value);
        backward_s_.push_back(backward.value);
      }
    for (std::size_t from = 0; from < num_devices(); ++from)
      for (std::size_t to = 0; to < num_devices(); ++to)
        routes_.push_back(route(input.platform, DeviceId(from), DeviceId(to)));
  }

  double run() {
    for (num_stages_ = 1; num_stages_ <= std::min(num_devices(), units_.size()); ++num_stages_) {
      stage_of_.assign(units_.size(), 0);
      assign(0);
    }
    return least_;
  }

 private:
  struct Edge {
    std::size_t from, to;
    double activation_bytes = 0, gradient_bytes = 0;
  };

  std::size_t num_devices() const { return input_.platform.devices.size(); }

  void assign(std::size_t unit) {
    if (unit == units_.size()) return place();
    std::size_t first = 0;
    for (const std::size_t u : before_[unit]) first = std::max(first, u == unit ? 0 : stage_of_[u]);
    for (stage_of_[unit] = first; stage_of_[unit] < num_stages_; ++stage_of_[unit]) assign(unit + 1);
  }

  void place() {
    stages_.assign(num_stages_, Stage{});
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (const OpId op : units_[u].ops) stages_[stage_of_[u]].ops.push_back(op);
    for (std::size_t s = 0; s < num_stages_; ++s) {
      if (stages_[s].ops.empty()) return;
      stages_[s].device = DeviceId(s);
      std::ranges::sort(stages_[s].ops);
    }
    Schedule schedule = input_.request;
    schedule.stages = stages_;
    schedule.edges = cut_edges(input_.graph, stages_);
    edges_.clear();
    for (const CutEdge& cut : schedule.edges) {
      if (edges_.empty() || edges_.back().from != cut.from.index() || edges_.back().to != cut.to.index())
        edges_.push_back({cut.from.index(), cut.to.index()});
      const Tensor& tensor = input_.graph.tensor(cut.tensor);
      edges_.back().activation_bytes += static_cast<double>(bytes_of(tensor).value);
      if (tensor.needs_gradient) edges_.back().gradient_bytes += static_cast<double>(bytes_of(tensor).value);
    }
    const auto costs = stage_costs(schedule, input_.graph, input_.costs, input_.platform);
    needed_.clear();
    const int count = static_cast<int>(num_stages_);
    for (int s = 0; s < count; ++s)
      needed_.push_back(
          memory_needed(costs[static_cast<std::size_t>(s)],
                        find_order(input_.request.order).in_flight({count, s, input_.request.micro_batches})));
    used_.assign(num_devices(), false);
    stage_forward_s_.assign(num_stages_, 0);
    stage_backward_s_.assign(num_stages_, 0);
    choose_device(0, 0);
  }

  void choose_device(std::size_t s, double busiest_s) {
    if (input_.request.micro_batches * busiest_s >= least_) return;
    if (s == num_stages_) return evaluate(busiest_s);
    for (std::size_t d = 0; d < num_devices(); ++d) {
      if (used_[d] || needed_[s] > input_.platform.gpu_of(DeviceId(d)).memory) continue;
      stage_forward_s_[s] = stage_backward_s_[s] = 0;
      for (std::size_t u = 0; u < units_.size(); ++u)
        if (stage_of_[u] == s) {
          stage_forward_s_[s] += forward_s_[d * units_.size() + u];
          stage_backward_s_[s] += backward_s_[d * units_.size() + u];
        }
      stages_[s].device = DeviceId(d);
      used_[d] = true;
      choose_device(s + 1, std::max(busiest_s, stage_forward_s_[s] + stage_backward_s_[s]));
      used_[d] = false;
    }
  }

  void evaluate(double busiest_s) {
    std::vector<double> done(num_stages_), ready(num_stages_);
    const auto transfer_s = [&](std::size_t from, std::size_t to, double bytes) {
      if (bytes == 0) return -no_placement;  // no message, nothing to wait for
      const Route& way = routes_[stages_[from].device.index() * num_devices() + stages_[to].device.index()];
      busiest_s = std::max(busiest_s, bytes / way.bandwidth.value);
      return way.latency.value + bytes / way.bandwidth.value;
    };
    auto edge = edges_.begin();
    for (std::size_t s = 0; s < num_stages_; ++s) {
      done[s] = ready[s] + stage_forward_s_[s];
      for (; edge != edges_.end() && edge->from == s; ++edge)
        ready[edge->to] = std::max(ready[edge->to], done[s] + transfer_s(s, edge->to, edge->activation_bytes));
    }
    for (std::size_t s = num_stages_; s-- > 0;) {
      for (const Edge& each : edges_)
        if (each.from == s) done[s] = std::max(done[s], done[each.to] + transfer_s(each.to, s, each.gradient_bytes));
      done[s] += stage_backward_s_[s];
    }
    const double bound = *std::ranges::max_element(done) + (input_.request.micro_batches - 1) * busiest_s;
    if (bound >= least_) return;
    const Judged judged = judge(input_, stages_);
    if (judged.fits()) least_ = std::min(least_, judged.iteration.value);
  }

  const PolicyInput& input_;
  std::vector<Unit> units_;
  std::vector<std::vector<std::size_t>> before_;
  std::vector<double> forward_s_, backward_s_;  ///< by device and unit
  std::vector<Route> routes_;
  std::size_t num_stages_ = 0;
  std::vector<std::size_t> stage_of_;
  std::vector<Stage> stages_;
  std::vector<Edge> edges_;
  std::vector<Bytes> needed_;
  std::vector<bool> used_;
  std::vector<double> stage_forward_s_, stage_backward_s_;
  double least_ = no_placement;
};

inline double exhaustive_iteration(const PolicyInput& input) { return ExhaustiveSearch(input).run(); }

/// How far op-fence is from the optimum, over several problems.
struct Gap {
  int feasible = 0, optimal = 0, missed = 0;
  double sum = 0, worst = 0;
  double mean() const { return feasible > 0 ? sum / feasible : 0; }
};

inline void add_to(Gap& gap, const PolicyInput& input) {
  const double best = exhaustive_iteration(input);
  if (best == no_placement) return;
  ++gap.feasible;
  try {
    const double excess = judge(input, op_fence(input)).iteration.value / best - 1;
    gap.optimal += excess < 1e-9;
    gap.sum += excess;
    gap.worst = std::max(gap.worst, excess);
  } catch (const Infeasible&) {
    ++gap.missed;
  }
}

}  // namespace fusion
