#include "core/engine/steady_state.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace fusion {
namespace {

/// b - a, entry by entry. What is unknown in both does not grow.
void subtract(std::vector<double>& d, const std::vector<double>& a, const std::vector<double>& b) {
  d.resize(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] == b[i] ? 0 : b[i] - a[i];
}

void subtract(std::vector<std::uint32_t>& d, const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  d.resize(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = b[i] - a[i];
}

bool near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance)) return false;
  return true;
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values)
    if (std::isfinite(value)) most = std::max(most, value);
  return most;
}

/// Between 1 and 2, without a pattern: what moves from one to the next shows.
double weight(std::size_t walker) {
  const double x = static_cast<double>(walker) * 0.6180339887498949;
  return 1 + (x - std::floor(x));
}

std::size_t memory_of(const WalkMoment& moment) {
  return moment.walkers.size() * sizeof(Walker) + moment.pending.memory() +
         moment.channels.size() * sizeof(ChannelTime) + moment.device_busy_s.size() * sizeof(double);
}

}  // namespace

void SteadyState::keep(const WalkMoment& now) {
  for (std::size_t w = weights_.size(); w < now.walkers.size(); ++w)
    sum_of_weights_ += weights_.emplace_back(weight(w));
  std::size_t ended = 0;
  for (const Walker& walker : now.walkers) ended += walker.next.block_index();
  if (std::exchange(blocks_ended_, ended) != ended) forget();
  if (kept_.size() == std::clamp<std::size_t>(most_memory / memory_of(now), 3, 2 * longest_period + 1)) {
    spare_.push_back(std::move(kept_.front()));
    kept_.pop_front();
  }
  if (spare_.empty()) {
    kept_.push_back({now});
  } else {
    kept_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    kept_.back().moment = now;
  }
  double trace_s = 0;
  for (std::size_t w = 0; w < weights_.size(); ++w) trace_s += weights_[w] * now.walkers[w].free.at_s;
  kept_.back().trace_s = trace_s;
  kept_.back().uneven_s = trace_s - sum_of_weights_ * now.walkers.front().free.at_s;
}

void SteadyState::forget() {
  std::ranges::move(kept_, std::back_inserter(spare_));
  kept_.clear();
}

bool SteadyState::after_sweep(WalkMoment& now, Later& later) {
  keep(now);
  if (left_ > 0) {
    if (--left_ > 0) return false;
    const std::uint32_t periods = proven_periods(now, later);
    later.begin(0);
    skip(now, change_, periods);
    pause_ = periods > 0 ? failures_ = 0 : ++failures_;
    if (periods > 0) forget();  // what comes now is another steady state
    return periods > 0;
  }
  if (alike_ && find_alike()) return skip_alike_from_the_best_point(now);
  if (pause_ > 0) return --pause_, false;
  if (!find_period()) return false;
  left_ = period_;
  later.begin(tolerance_s_);
  set_growth(now, change_.times_s);
  return false;
}

/// What the last `period` sweeps have changed. False if something else than times and counts has.
bool SteadyState::measure(std::size_t period) {
  const WalkState before = read(ago(period)), now = read(ago(0));
  if (before.shape != now.shape || before.times_s.size() != now.times_s.size()) return false;
  period_ = period;
  subtract(change_.times_s, before.times_s, now.times_s);
  subtract(change_.sums_s, before.sums_s, now.sums_s);
  subtract(change_.counts, before.counts, now.counts);
  // Times are sums of many terms; what a period adds is known to that rounding.
  tolerance_s_ = 1e-11 * largest(change_.times_s) + 2e-14 * largest(now.times_s);
  return all_finite(change_.times_s);
}

/// Whether all times have grown by the same, but for those of walkers that have not moved.
bool SteadyState::all_grow_alike() const {
  const double growth = change_.times_s.front();
  const auto alike = [&](double d) { return std::abs(d - growth) <= tolerance_s_; };
  for (std::size_t w = 0; w < weights_.size(); ++w)
    if (change_.counts[w] != 0 && !alike(change_.times_s[w])) return false;
  return std::ranges::all_of(change_.times_s, [&](double d) { return d == 0 || alike(d); });
}

/// The least period after which all times have grown alike.
bool SteadyState::find_alike() {
  for (std::size_t period = 1; period < kept_.size(); ++period)
    if (std::abs(uneven(0) - uneven(period)) <= 1e-12 * trace(0) && measure(period) && all_grow_alike()) return true;
  return false;
}

/// The period may end at any of its points: at the one after which least is left to walk.
bool SteadyState::skip_alike_from_the_best_point(WalkMoment& now) {
  std::size_t best = 0, most = 0;
  for (std::size_t back = 0; back < period_; ++back) {
    const std::size_t sweeps = periods_of_room(ago(back), change_.counts) * period_ - back;
    if (sweeps <= most || sweeps > std::numeric_limits<std::uint32_t>::max()) continue;
    most = sweeps;
    best = back;
  }
  if (most == 0) return false;
  now = ago(best);
  skip_alike(now, change_, change_.times_s.front(), periods_of_room(now, change_.counts));
  forget();
  return true;
}

/// The least period after which the trace grows as it did the last time, at each of its sweeps.
bool SteadyState::find_period() {
  const auto grown = [&](std::size_t back, std::size_t period) { return trace(back) - trace(back + period); };
  for (std::size_t period = 1; 2 * period < kept_.size(); ++period) {
    const double growth = grown(0, period);
    std::size_t back = 1;
    while (back <= period && std::abs(grown(back, period) - growth) <= 1e-9 * growth) ++back;
    if (back > period && measure(period)) return true;
  }
  return false;
}

/// For how many periods more all goes on as in the last two, the second of which was walked with the growth of the
/// first beside each time.
std::uint32_t SteadyState::proven_periods(WalkMoment& now, const Later& later) {
  if (kept_.size() <= period_) return 0;  // a list has come to another block
  const WalkState tried = change_;
  const double tolerance_s = tolerance_s_;
  if (!measure(period_) || change_.counts != tried.counts || !near(change_.times_s, tried.times_s, tolerance_s) ||
      !near(read(now).growth_s, tried.times_s, tolerance_s) || !near(change_.sums_s, tried.sums_s, 16 * tolerance_s))
    return 0;
  const std::uint32_t periods = periods_of_room(now, change_.counts);
  return later.periods() < periods ? static_cast<std::uint32_t>(later.periods()) : periods;
}

}  // namespace fusion
