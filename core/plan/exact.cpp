#include "core/plan/exact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "core/base/error.h"
#include "core/plan/linear_order.h"
#include "core/plan/op_fence.h"
#include "core/plan/op_fence_fleet.h"
#include "core/plan/op_fence_line.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t max_units = max_bounded_units;
constexpr double max_placements = 1e7;
constexpr std::size_t max_nodes_of_policy = 4'000'000;
constexpr double rounding = 1e-12;  ///< relative; a bound this near to the best is no promise

using Units = std::uint64_t;  ///< a set of units

constexpr Units bit(std::size_t unit) { return Units{1} << unit; }
constexpr bool has(Units set, std::size_t unit) { return set >> unit & 1; }

/// A tensor as it crosses from the unit that makes it to some that read it, at the smallest it may become.
struct Crossing {
  std::size_t producer = 0;
  Units readers = 0;
  double forward_bytes = 0, backward_bytes = 0;
  bool has_gradient = false;
};

/// Both directions between two devices.
struct Pair {
  double latency_s = 0, s_per_byte = 0;
  double transfer_s(double bytes) const { return latency_s + bytes * s_per_byte; }
};

/// The problem in numbers: what does not change during the search.
struct Numbers {
  std::size_t num_units = 0, num_devices = 0;
  std::vector<Units> before;                                     ///< by unit: those it reads from
  std::vector<double> forward_s, backward_s;                     ///< by device and unit
  std::vector<double> least_forward_s, least_backward_s, share;  ///< by unit, see below
  std::vector<double> weight;                                    ///< by device
  std::vector<Crossing> crossings;
  std::vector<Pair> pairs;                    ///< [from * devices + to]
  std::vector<Pair> nearest_out, nearest_in;  ///< by device: the best of any pair from it, to it
};

/// With weights w_d and t_ud a unit's time, any placement keeps some device busy for at least
/// sum over u of min over d of w_d t_ud, over the sum of the w_d: `share` and `weight` are the terms of the two sums.
void add_shares(Numbers& n) {
  for (std::size_t d = 0; d < n.num_devices; ++d) {
    double all = 0;
    for (std::size_t u = 0; u < n.num_units; ++u)
      all += n.forward_s[d * n.num_units + u] + n.backward_s[d * n.num_units + u];
    n.weight.push_back(1 / std::max(all, 1e-300));
  }
  for (std::size_t u = 0; u < n.num_units; ++u) {
    double forward = infinity, backward = infinity, share = infinity;
    for (std::size_t d = 0; d < n.num_devices; ++d) {
      const double f = n.forward_s[d * n.num_units + u], b = n.backward_s[d * n.num_units + u];
      forward = std::min(forward, f);
      backward = std::min(backward, b);
      share = std::min(share, n.weight[d] * (f + b));
    }
    n.least_forward_s.push_back(forward);
    n.least_backward_s.push_back(backward);
    n.share.push_back(share);
  }
}

void add_times(Numbers& n, const PolicyInput& input, const std::vector<Unit>& units) {
  const Training& training = input.request.training;
  for (std::size_t d = 0; d < n.num_devices; ++d)
    for (const Unit& unit : units) {
      Seconds forward{}, backward{};
      for (const OpId op : unit.ops) {
        const OpTimes times = op_times(input.graph, input.costs, op, input.platform.gpu_of(DeviceId(d)),
                                       compute_dtype(training.precision));
        forward += times.forward;
        backward += times.backward() + (training.recompute ? times.forward : Seconds(0));
      }
      n.forward_s.push_back(forward.value);
      n.backward_s.push_back(backward.value);
    }
}

void add_crossings(Numbers& n, const PolicyInput& input, const std::vector<std::size_t>& unit_of) {
  for (const Tensor& tensor : input.graph.tensors) {
    Crossing crossing{.producer = unit_of[tensor.producer.index()]};
    for (const OpId reader : tensor.consumers)
      if (unit_of[reader.index()] != crossing.producer) crossing.readers |= bit(unit_of[reader.index()]);
    if (crossing.readers == 0) continue;
    for (std::size_t u = 0; u < n.num_units; ++u)
      if (has(crossing.readers, u)) n.before[u] |= bit(crossing.producer);
    crossing.has_gradient = tensor.needs_gradient;
    crossing.forward_bytes = static_cast<double>(least_wire_bytes(tensor, input.compression).value);
    if (tensor.needs_gradient) crossing.backward_bytes = crossing.forward_bytes;
    n.crossings.push_back(crossing);
  }
}

void add_pairs(Numbers& n, const Platform& platform) {
  n.nearest_out.assign(n.num_devices, {infinity, infinity});
  n.nearest_in = n.nearest_out;
  for (std::size_t from = 0; from < n.num_devices; ++from)
    for (std::size_t to = 0; to < n.num_devices; ++to) {
      const Route way = route(platform, DeviceId(from), DeviceId(to));
      n.pairs.push_back({way.latency.value, 1 / way.bandwidth.value});
      if (from == to) continue;
      for (Pair* best : {&n.nearest_out[from], &n.nearest_in[to]})
        *best = {std::min(best->latency_s, n.pairs.back().latency_s),
                 std::min(best->s_per_byte, n.pairs.back().s_per_byte)};
    }
}

Numbers numbers_of(const PolicyInput& input, const std::vector<Unit>& units) {
  Numbers n;
  n.num_units = units.size();
  n.num_devices = input.platform.devices.size();
  n.before.assign(n.num_units, 0);
  add_times(n, input, units);
  add_shares(n);
  add_crossings(n, input, unit_of_ops(input.graph, units));
  add_pairs(n, input.platform);
  return n;
}

/// A stage that is decided, with what follows from it and the stages before it.
struct Decided {
  Units units = 0;
  std::size_t device = 0;
  double done_s = 0;  ///< end of the first forward
  double tail_s = 0;  ///< from the start of its backward, at best, to the end of the earliest stage's
  double forward_s = 0, backward_s = 0;  ///< busiest device or channel of each phase, up to here …
  double busiest_s = 0;                  ///< … and of both phases together
  double fill_s = 0;                     ///< of what is decided
};

class Search {
 public:
  Search(const PolicyInput& input, std::optional<Judged> start, std::size_t max_nodes)
      : input_(input),
        units_(linear_order(input.graph)),
        n_(numbers_of(input, units_)),
        order_(find_order(input.request.order)),
        groups_(device_groups(input.platform)),
        used_(n_.num_devices),
        max_nodes_(max_nodes) {
    if (start && start->fits()) best_ = std::move(start);
    all_ = n_.num_units == max_units ? ~Units{0} : bit(n_.num_units) - 1;
    for (const double weight : n_.weight) free_weight_ += weight;
  }

  BranchAndBound run() {
    extend(0);
    return {std::move(best_), num_nodes_ <= max_nodes_, std::min(num_nodes_, max_nodes_)};
  }

 private:
  double limit_s() const { return best_ ? best_->iteration.value * (1 - rounding) : infinity; }
  bool exhausted() const { return num_nodes_ > max_nodes_; }

  /// Tries every next stage after `placed` units are placed.
  void extend(Units placed) {
    if (placed == all_) return judge_stages();
    if (stages_.size() == n_.num_devices) return;
    choose_units(placed, 0, 0);
  }

  /// Every set that can come next, unit by unit in topological order.
  void choose_units(Units placed, Units chosen, std::size_t unit) {
    if (exhausted()) return;
    if (unit == n_.num_units) {
      if (chosen != 0) choose_device(placed, chosen);
      return;
    }
    const Units seen = placed | chosen;
    if (!has(placed, unit) && (n_.before[unit] & ~seen) == 0) choose_units(placed, chosen | bit(unit), unit + 1);
    choose_units(placed, chosen, unit + 1);
  }

  void choose_device(Units placed, Units chosen) {
    const bool is_last = (placed | chosen) == all_;
    if (!is_last && stages_.size() + 1 == n_.num_devices) return;
    const Bytes needed = least_memory(chosen, is_last);
    for (const DeviceGroup& group : groups_) {
      const auto free = std::ranges::find_if(group.devices, [&](DeviceId id) { return !used_[id.index()]; });
      if (free == group.devices.end() || needed > input_.platform.gpu_of(*free).memory) continue;
      if (++num_nodes_ > max_nodes_) return;
      const std::size_t device = free->index();
      stages_.push_back(decided(chosen, device));
      used_[device] = true;
      free_weight_ -= n_.weight[device];
      if (bound_s(placed | chosen) < limit_s()) extend(placed | chosen);
      free_weight_ += n_.weight[device];
      used_[device] = false;
      stages_.pop_back();
    }
  }

  /// Parameters and activations; the least number in flight that the order may ask for here.
  Bytes least_memory(Units chosen, bool is_last) const {
    const StageCosts costs = compute_costs(stage_of(chosen, 0), input_.request.training, input_.graph, input_.costs,
                                           input_.platform.gpus.front());
    const int stage = static_cast<int>(stages_.size());
    return memory_needed(costs, order_.in_flight({stage + (is_last ? 1 : 2), stage, input_.request.micro_batches}));
  }

  Stage stage_of(Units chosen, std::size_t device) const {
    Stage stage{.device = DeviceId(device), .replica = 0, .ops = {}};
    for (std::size_t u = 0; u < n_.num_units; ++u)
      if (has(chosen, u)) stage.ops.insert(stage.ops.end(), units_[u].ops.begin(), units_[u].ops.end());
    std::ranges::sort(stage.ops);
    return stage;
  }

  /// The new stage after those there are: predict()'s passage of one micro-batch, one stage further.
  Decided decided(Units chosen, std::size_t device) const {
    Decided stage{.units = chosen, .device = device};
    double forward = 0, backward = 0;
    for (Units rest = chosen; rest != 0; rest &= rest - 1) {
      const auto u = static_cast<std::size_t>(std::countr_zero(rest));
      forward += n_.forward_s[device * n_.num_units + u];
      backward += n_.backward_s[device * n_.num_units + u];
    }
    if (!stages_.empty()) {
      stage.forward_s = stages_.back().forward_s;
      stage.backward_s = stages_.back().backward_s;
      stage.busiest_s = stages_.back().busiest_s;
      stage.fill_s = stages_.back().fill_s;
    }
    double ready = 0, behind = 0;
    for (const Decided& earlier : stages_) {
      double activations = 0, gradients = 0;
      bool sends = false, returns = false;
      for (const Crossing& crossing : n_.crossings) {
        if (!has(earlier.units, crossing.producer) || (crossing.readers & chosen) == 0) continue;
        sends = true;
        returns |= crossing.has_gradient;
        activations += crossing.forward_bytes;
        gradients += crossing.backward_bytes;
      }
      if (!sends) continue;
      const Pair& there = n_.pairs[earlier.device * n_.num_devices + device];
      const Pair& back = n_.pairs[device * n_.num_devices + earlier.device];
      ready = std::max(ready, earlier.done_s + there.transfer_s(activations));
      if (returns) behind = std::max(behind, earlier.tail_s + back.transfer_s(gradients));
      count_busy(stage, activations * there.s_per_byte, 0);
      count_busy(stage, 0, gradients * back.s_per_byte);
    }
    count_busy(stage, forward, backward);
    stage.done_s = ready + forward;
    stage.tail_s = behind + backward;
    stage.fill_s = std::max(stage.fill_s, stage.done_s + stage.tail_s);
    return stage;
  }

  static void count_busy(Decided& stage, double forward_s, double backward_s) {
    stage.forward_s = std::max(stage.forward_s, forward_s);
    stage.backward_s = std::max(stage.backward_s, backward_s);
    stage.busiest_s = std::max(stage.busiest_s, forward_s + backward_s);
  }

  /// No placement that begins like this one is predicted to take less.
  double bound_s(Units placed) const {
    const Decided& latest = stages_.back();
    double bottleneck = order_.phases_apart ? latest.forward_s + latest.backward_s : latest.busiest_s;
    double share = 0, fill = latest.fill_s;
    std::array<double, max_units> done, tail;
    for (Units rest = all_ & ~placed; rest != 0; rest &= rest - 1) {
      const auto u = static_cast<std::size_t>(std::countr_zero(rest));
      double ready = 0, behind = 0;
      for (const Crossing& crossing : n_.crossings) {
        if (!has(crossing.readers, u)) continue;
        if (!has(placed, crossing.producer)) {
          ready = std::max(ready, done[crossing.producer]);
          if (crossing.has_gradient) behind = std::max(behind, tail[crossing.producer]);
          continue;
        }
        const Decided& from =
            *std::ranges::find_if(stages_, [&](const Decided& stage) { return has(stage.units, crossing.producer); });
        ready = std::max(ready, from.done_s + n_.nearest_out[from.device].transfer_s(crossing.forward_bytes));
        if (crossing.has_gradient)
          behind = std::max(behind, from.tail_s + n_.nearest_in[from.device].transfer_s(crossing.backward_bytes));
      }
      done[u] = ready + n_.least_forward_s[u];
      tail[u] = behind + n_.least_backward_s[u];
      fill = std::max(fill, done[u] + tail[u]);
      share += n_.share[u];
    }
    if (share > 0) bottleneck = std::max(bottleneck, share / std::max(free_weight_, 1e-300));
    return fill + (input_.request.micro_batches - 1) * bottleneck;
  }

  void judge_stages() {
    std::vector<Stage> stages;
    for (const Decided& each : stages_) stages.push_back(stage_of(each.units, each.device));
    Judged judged = judge(input_, std::move(stages));
    if (judged.fits() && judged.iteration.value < limit_s()) best_ = std::move(judged);
  }

  const PolicyInput& input_;
  std::vector<Unit> units_;
  Numbers n_;
  Order order_;
  std::vector<DeviceGroup> groups_;
  Units all_ = 0;
  std::vector<Decided> stages_;
  std::vector<bool> used_;
  double free_weight_ = 0;
  std::size_t num_nodes_ = 0, max_nodes_;
  std::optional<Judged> best_;
};

std::string too_large(const PolicyInput& input, std::size_t num_units, const std::string& reason) {
  return "exact: " + std::to_string(num_units) + " ops on " + std::to_string(input.platform.devices.size()) +
         " devices are too many: " + reason + "; op-fence plans problems of any size";
}

}  // namespace

double num_line_placements(std::size_t num_units, std::size_t num_devices) {
  double sum = 0, cuts = 1, devices = 1;
  for (std::size_t k = 1; k <= std::min(num_units, num_devices); ++k) {
    devices *= static_cast<double>(num_devices - k + 1);
    sum += cuts * devices;
    cuts *= static_cast<double>(num_units - k) / static_cast<double>(k);  // C(n - 1, k) from C(n - 1, k - 1)
  }
  return sum;
}

BranchAndBound branch_and_bound(const PolicyInput& input, std::optional<Judged> start, std::size_t max_nodes) {
  return Search(input, std::move(start), max_nodes).run();
}

std::vector<Stage> exact(const PolicyInput& input) {
  const std::size_t num_units = linear_order(input.graph).size();
  if (num_units > max_units) throw Infeasible(too_large(input, num_units, "it places 64 at most"));
  const double placements = num_line_placements(num_units, input.platform.devices.size());
  if (placements > max_placements)
    throw Infeasible(too_large(input, num_units, "more than 10 million placements to choose from"));
  std::optional<Judged> start;
  try {
    start = judge(input, op_fence(input));
  } catch (const Infeasible&) {
    // What op-fence does not find may still exist; without a placement to beat the search takes longer.
  }
  BranchAndBound found = branch_and_bound(input, std::move(start), max_nodes_of_policy);
  if (!found.complete)
    throw Infeasible(too_large(input, num_units, "4 million partial placements were not enough to be sure"));
  if (!found.best) throw Infeasible("exact: no placement fits the devices' memory");
  return std::move(found.best->stages);
}

}  // namespace fusion
