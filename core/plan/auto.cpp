#include "core/plan/auto.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>

#include "core/base/error.h"
#include "core/engine/native.h"
#include "core/plan/run_config.h"
#include "core/program/lower.h"

namespace fusion {
namespace {

using Point = std::vector<std::size_t>;  ///< value of each axis

constexpr double infinity = std::numeric_limits<double>::infinity();

class AutoSearch {
 public:
  AutoSearch(const RunConfig& config, const std::vector<Axis>& axes, const AutoOptions& options)
      : config_(config), axes_(axes), options_(options), random_(config.seed) {
    for (const Axis& axis : axes) {
      check(!axis.values.empty(), "an axis without a value");
      result_.num_setups = result_.num_setups == 0 ? axis.values.size() : result_.num_setups * axis.values.size();
    }
  }

  AutoResult run() {
    Point point = asked_for();
    try_axis(point, axis_of("policy"));
    descend(point);
    while (!is_over()) {
      for (std::size_t a = 0; a < axes_.size(); ++a) point[a] = random_() % axes_[a].values.size();
      descend(point);
    }
    if (result_.best.empty()) throw Infeasible("auto: none of the set-ups fits; the first one: " + first_failure_);
    return std::move(result_);
  }

 private:
  bool is_over() const { return stopped_ || known_.size() == result_.num_setups; }

  std::size_t axis_of(std::string_view key) const {
    return static_cast<std::size_t>(std::ranges::find(axes_, key, &Axis::key) - axes_.begin());
  }

  /// The set-up of the config where the axes have it, else their first values.
  Point asked_for() const {
    Point point(axes_.size());
    for (std::size_t a = 0; a < axes_.size(); ++a)
      for (const RunOption& option : run_options())
        if (option.key == axes_[a].key)
          if (const auto at = std::ranges::find(axes_[a].values, option.get(config_)); at != axes_[a].values.end())
            point[a] = static_cast<std::size_t>(at - axes_[a].values.begin());
    return point;
  }

  /// All values of one axis; true where one is better than where the point was.
  bool try_axis(Point& point, std::size_t axis) {
    if (axis == axes_.size()) return false;
    const double before = time_s(point);
    Point best = point, tried = point;
    for (tried[axis] = 0; tried[axis] < axes_[axis].values.size(); ++tried[axis])
      if (time_s(tried) < time_s(best)) best = tried;
    point = best;
    return time_s(best) < before;
  }

  void descend(Point& point) {
    for (bool better = true; better && !stopped_;) {
      better = false;
      for (std::size_t a = 0; a < axes_.size(); ++a) better |= try_axis(point, a);
    }
  }

  /// Infinite for what does not fit, and for what there is no effort left to try.
  double time_s(const Point& point) {
    if (const auto known = known_.find(point); known != known_.end()) return known->second;
    if (stopped_ || result_.num_evaluations == options_.max_evaluations ||
        (result_.num_evaluations > 0 && options_.is_time_up())) {
      stopped_ = true;
      return infinity;
    }
    const RunConfig config = config_at(point);
    if (!can_share(config)) return known_.emplace(point, infinity).first->second;
    ++result_.num_evaluations;
    const double time = evaluated_s(config);
    result_.num_infeasible += time == infinity;
    return known_.emplace(point, time).first->second;
  }

  /// A point of the grid that is no set-up: replicas without a device or a micro-batch of their own. Costs no
  /// evaluation.
  bool can_share(const RunConfig& config) {
    return config.micro_batches % config.replicas == 0 &&
           static_cast<std::size_t>(config.replicas) <= problem_of(config).platform.devices.size();
  }

  double evaluated_s(const RunConfig& config) {
    try {
      const Problem& problem = problem_of(config);
      Schedule schedule = make_schedule(config, problem);
      const Program program = lower(schedule, problem.graph, problem.costs, problem.platform);
      const Seconds iteration = native_iteration(program, problem.platform);
      keep({config, iteration, std::move(schedule)});
      return iteration.value;
    } catch (const Infeasible& reason) {
      if (first_failure_.empty()) first_failure_ = reason.what();
      return infinity;
    }
  }

  RunConfig config_at(const Point& point) const {
    RunConfig config = config_;
    const std::int64_t samples = config.micro_batches * config.model_options.micro_batch;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      set_option(config, axes_[a].key, axes_[a].values[point[a]]);
      if (axes_[a].key == "micro-batches") config.model_options.micro_batch = samples / config.micro_batches;
    }
    return config;
  }

  /// Only the size of a micro-batch changes the problem.
  const Problem& problem_of(const RunConfig& config) {
    const auto found = problems_.find(config.model_options.micro_batch);
    if (found != problems_.end()) return found->second;
    return problems_.emplace(config.model_options.micro_batch, load_problem(config)).first->second;
  }

  /// Set-ups that come to the same schedule but for their names are kept once: the first.
  void keep(Trial trial) {
    const bool known = std::ranges::any_of(result_.best, [&](const Trial& other) {
      return other.schedule.stages == trial.schedule.stages && other.schedule.edges == trial.schedule.edges &&
             other.schedule.order == trial.schedule.order && other.config.model_options == trial.config.model_options &&
             other.schedule.micro_batches == trial.schedule.micro_batches &&
             other.schedule.replicas == trial.schedule.replicas;
    });
    if (known) return;
    const auto place = std::ranges::upper_bound(result_.best, trial.iteration, {}, &Trial::iteration);
    result_.best.insert(place, std::move(trial));
    if (result_.best.size() > num_kept) result_.best.pop_back();
  }

  const RunConfig& config_;
  const std::vector<Axis>& axes_;
  const AutoOptions& options_;
  std::mt19937_64 random_;
  std::map<std::int64_t, Problem> problems_;
  std::map<Point, double> known_;
  std::string first_failure_;
  bool stopped_ = false;
  AutoResult result_;
};

}  // namespace

std::vector<Axis> all_axes(const RunConfig& config) {
  Axis policies{"policy", {}}, orders{"order", {}}, micro_batches{"micro-batches", {}}, replicas{"replicas", {}};
  for (const PolicyRow& row : policy_table()) policies.values.emplace_back(row.name);
  for (const OrderRow& row : order_table()) orders.values.emplace_back(row.name);
  const std::int64_t samples = config.micro_batches * config.model_options.micro_batch;
  for (std::int64_t n = 1; n <= std::min<std::int64_t>(samples, max_micro_batches); ++n)
    if (samples % n == 0) {
      micro_batches.values.push_back(std::to_string(n));
      replicas.values.push_back(std::to_string(n));
    }
  return {policies, orders, micro_batches, replicas};
}

AutoResult auto_search(const RunConfig& config, const std::vector<Axis>& axes, const AutoOptions& options) {
  return AutoSearch(config, axes, options).run();
}

}  // namespace fusion
