#include "core/plan/op_fence.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/plan/chain_optimal.h"
#include "core/plan/dt_fm.h"
#include "core/plan/exact.h"
#include "core/plan/op_fence_enumerate.h"
#include "core/plan/op_fence_fleet.h"
#include "core/plan/op_fence_judge.h"
#include "core/plan/op_fence_line.h"
#include "core/plan/op_fence_planner.h"
#include "core/plan/op_fence_refine.h"
#include "core/plan/policies_baseline.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

// Bounds of the effort, in what dominates each step.
constexpr std::size_t coarse_units = 160;                ///< cuts to choose from while orders are compared
constexpr std::size_t max_all_orders = 2500;             ///< every order is tried where there are no more than this …
constexpr std::size_t max_units_of_all_orders = 60'000;  ///< … and times the units no more than this
constexpr std::size_t work_of_a_start = 500'000;         ///< steps of the dynamic programme
constexpr std::size_t num_improved = 4;                  ///< starts that local search continues from
constexpr std::size_t work_of_improving = 3'000'000;     ///< steps of the dynamic programme, per start
constexpr std::size_t work_of_fine_cuts = 40'000'000;
constexpr std::size_t exact_units = 24;  ///< up to here every trade-off of fill and bottleneck is looked at
constexpr std::size_t num_finalists = 24;
constexpr std::size_t max_devices_of_dt_fm = 256;    ///< it prices every pair of devices
constexpr double max_placements_to_bound = 1e6;      ///< of the line, for branch and bound to be tried …
constexpr std::size_t max_nodes_to_bound = 150'000;  ///< … and the stages it may put on devices
constexpr std::size_t ops_judged = 60'000;  ///< in all while refining: judging takes time in proportion to the ops

/// Pretended memory, when nothing fits what there is: the line may have overestimated the need.
constexpr std::array memory_scales = {1.0, 1.1, 1.5, 1e9};

/// One topological order of the network, fine and coarse.
struct Layout {
  std::vector<Unit> units;
  Line fine;
  CoarseLine coarse;
  std::vector<TiedParameter> tied, coarse_tied;
};

std::vector<TiedParameter> on_coarse_line(std::vector<TiedParameter> tied, const std::vector<std::size_t>& cuts) {
  for (TiedParameter& parameter : tied)
    for (std::size_t& unit : parameter.units)
      unit = static_cast<std::size_t>(std::ranges::upper_bound(cuts, unit) - cuts.begin()) - 1;
  return tied;
}

class OpFence {
 public:
  explicit OpFence(const PolicyInput& input)
      : input_(input), groups_(promising_groups(input.platform, compute_dtype(input.request.training.precision))) {
    for (std::vector<Unit>& units : orders_to_try(input.graph)) {
      Layout& layout = layouts_.emplace_back();
      layout.units = std::move(units);
      layout.fine = lay_out(input, layout.units);
      layout.coarse = coarsened(layout.fine, coarse_units);
      layout.tied = tied_parameters(input, layout.units);
      layout.coarse_tied = on_coarse_line(layout.tied, layout.coarse.cuts);
    }
    message_ = typical_message(layouts_.front().fine);
  }

  std::vector<Stage> run() {
    judge_baselines();
    if (is_solved()) {
      if (!best().fits()) throw Infeasible(complaint());
      return best().stages;
    }
    judge_plans_of_other_codecs();
    starts_ = enumerated_orders(
        groups_, std::min(max_all_orders, max_units_of_all_orders / layouts_.front().coarse.line.num_units()));
    all_orders_ = !starts_.empty();
    if (!all_orders_)
      starts_ = starting_orders(input_.platform, groups_, compute_dtype(input_.request.training.precision), message_);
    for (const double scale : memory_scales) {
      search(scale);
      if (!judged_.empty() && best().fits()) break;
    }
    refine_best();
    if (!best().fits()) throw Infeasible(complaint());
    return best().stages;
  }

 private:
  const Judged& best() const { return *std::ranges::min_element(judged_, better); }

  void judge_baselines() {
    for (const auto place : {equal_number, equal_compute, random_placement})
      judged_.push_back(judge(input_, place(input_)));
    if (input_.platform.devices.size() <= max_devices_of_dt_fm) judged_.push_back(judge(input_, dt_fm(input_)));
    try {
      judged_.push_back(judge(input_, chain_optimal(input_)));
    } catch (const Infeasible&) {
      // No cuts for the devices in file order fit their memory: there is nothing to compare with.
    }
    for (const DeviceGroup& group : groups_) add_single(group.devices.front());
  }

  /// Small problems are solved outright: where the network branches, or boundaries share links, the best placement may
  /// be none that a line of units can tell from worse ones.
  bool is_solved() {
    const std::size_t num_units = layouts_.front().units.size();
    if (num_units > max_bounded_units ||
        num_line_placements(num_units, input_.platform.devices.size()) > max_placements_to_bound)
      return false;
    BranchAndBound found = branch_and_bound(input_, best(), max_nodes_to_bound);
    if (found.best) judged_.push_back(std::move(*found.best));
    return found.complete;
  }

  /// Where the ratio of an edge depends on all the others, a line can only guess it. So placements that were found for
  /// codecs which treat every edge alike are judged too.
  void judge_plans_of_other_codecs() {
    if (input_.compression.row->reach == Reach::everywhere) return;
    for (const char* other : {"int8", "uniform-topk:100"}) {
      const Compression compression = parse_compression(other);
      const PolicyInput input{input_.graph, input_.costs, input_.platform, input_.request, compression};
      try {
        judged_.push_back(judge(input_, OpFence(input).run()));
      } catch (const Infeasible&) {
        // Judging for that codec found nothing that fits; the search that follows says what is missing.
      }
    }
  }

  /// All of the network on one device, of each GPU type once.
  void add_single(DeviceId device) {
    const GpuId gpu = input_.platform.device(device).gpu;
    if (std::ranges::find(single_types_, gpu) != single_types_.end()) return;
    single_types_.push_back(gpu);
    const std::vector<Unit>& units = layouts_.front().units;
    judged_.push_back(judge(input_, cut_line(units, std::array{std::size_t{0}, units.size()}, std::array{device})));
  }

  /// Cuts the line for every start, improves the best, and judges what comes out.
  void search(double memory_scale) {
    const std::size_t num_layouts = all_orders_ ? layouts_.size() : 1;
    for (std::size_t i = 0; i < num_layouts; ++i) {
      const Layout& layout = layouts_[i];
      const Planner planner(input_, layout.coarse.line, layout.coarse_tied, memory_scale);
      std::vector<Pipeline> found = all_orders_ ? cut_all(planner) : cut_starts(planner);
      keep_best(found, all_orders_ ? num_finalists : num_improved);
      if (!all_orders_)
        for (Pipeline& pipeline : found) {
          std::size_t work = work_of_improving;
          pipeline = planner.improve(std::move(pipeline), groups_, message_, work);
        }
      judge_finalists(layout, found, memory_scale);
      if (all_orders_) continue;
      // Where the network branches, the best devices get a chance with the other orders of its ops.
      for (std::size_t other = 1; other < layouts_.size(); ++other)
        judge_finalists(layouts_[other], found, memory_scale);
    }
  }

  std::vector<Pipeline> cut_all(const Planner& planner) const {
    const bool exact = layouts_.front().units.size() <= exact_units;
    std::vector<Pipeline> found;
    for (const auto& order : starts_)
      if (auto pipeline = planner.cut(order, {.step = exact ? 1 - 1e-9 : 0.95, .max_bounds = 20}))
        found.push_back(std::move(*pipeline));
    return found;
  }

  std::vector<Pipeline> cut_starts(const Planner& planner) const {
    std::vector<Pipeline> found;
    for (const auto& order : starts_) {
      const std::size_t steps = order.size() * layouts_.front().coarse.line.num_units();
      const std::size_t bounds = std::clamp<std::size_t>(work_of_a_start / steps, 4, 12);
      for (const bool may_stop_early : {false, true})
        if (auto pipeline = planner.cut(order, {.max_bounds = bounds, .may_stop_early = may_stop_early}))
          found.push_back(std::move(*pipeline));
    }
    return found;
  }

  /// The best `count` that differ in their devices.
  static void keep_best(std::vector<Pipeline>& found, std::size_t count) {
    std::ranges::stable_sort(found, {}, &Pipeline::estimate_s);
    std::vector<Pipeline> kept;
    for (Pipeline& each : found) {
      const bool known = std::ranges::any_of(kept, [&](const Pipeline& k) { return k.devices == each.devices; });
      if (!known && kept.size() < count) kept.push_back(std::move(each));
    }
    found = std::move(kept);
  }

  /// Cuts on the fine line for the devices of each finalist.
  void judge_finalists(const Layout& layout, const std::vector<Pipeline>& finalists, double memory_scale) {
    const Planner planner(input_, layout.fine, layout.tied, memory_scale);
    std::size_t work = work_of_fine_cuts;
    for (const Pipeline& each : finalists) {
      const std::size_t steps = each.devices.size() * layout.fine.num_units();
      const std::size_t bounds = std::clamp<std::size_t>(work / std::max<std::size_t>(steps, 1), 1, 10);
      work -= std::min(work, bounds * steps);
      const auto pipeline =
          planner.cut(each.devices, {.step = 0.93, .max_bounds = bounds, .first_bound_s = each.bottleneck_s * 1.15});
      if (pipeline) judged_.push_back(judge(input_, cut_line(layout.units, pipeline->cuts, pipeline->devices)));
    }
  }

  /// From the best on, as long as there is effort left; one placement takes a third of it at most.
  void refine_best() {
    std::ranges::stable_sort(judged_, better);
    std::size_t left = std::clamp<std::size_t>(ops_judged / input_.graph.ops.size(), 12, 2000);
    const std::size_t most = left / 3;
    for (std::size_t i = 0; i < judged_.size() && left > 0; ++i) {
      std::size_t share = std::min(most, left);
      left -= share;
      judged_[i] = refine(input_, layouts_.front().units, groups_, judged_[i], share);
      left += share;
    }
  }

  std::string complaint() const {
    const Judged& nearest = best();
    return "op-fence: no placement fits the devices' memory; the nearest, on " + std::to_string(nearest.stages.size()) +
           " of " + std::to_string(input_.platform.devices.size()) + " devices, lacks " + format(nearest.missing) +
           " in all" + (input_.request.training.recompute ? "" : "; --recompute may help");
  }

  const PolicyInput& input_;
  std::vector<DeviceGroup> groups_;
  std::vector<Layout> layouts_;
  TypicalMessage message_;
  std::vector<std::vector<DeviceId>> starts_;
  bool all_orders_ = false;  ///< starts_ are all there are
  std::vector<GpuId> single_types_;
  std::vector<Judged> judged_;
};

}  // namespace

std::vector<Stage> op_fence(const PolicyInput& input) { return OpFence(input).run(); }

}  // namespace fusion
