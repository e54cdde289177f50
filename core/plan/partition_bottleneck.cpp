// min_bottleneck: bisection over "is there a partition whose every part and transfer takes at most T?".
//
// The question is answered from the first seat to the last by the set of cuts at which each seat may start. A cut i can
// follow seat p iff some start j < i fits: the part takes at most T (so j is in a window that slides with i) and its
// memory fits. Of the starts in the window the one that leaves most memory decides, a sliding-window maximum: O(N) per
// seat. Greedy bounds from both sides narrow the cuts that have to be looked at.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/plan/partition.h"
#include "core/plan/partition_kernels.h"

namespace fusion {
namespace {

using namespace partition_detail;

class BottleneckSearch {
 public:
  BottleneckSearch(const Line& line, std::span<const Seat> seats, std::span<const Hop> hops)
      : line_(line), seats_(seats), hops_(hops), num_units_(line.num_units()) {}

  std::optional<Partition> run();

 private:
  /// Cuts that seat p can start at lie in [first, last]; `reached[i - first]` says which of them it can.
  struct Starts {
    std::size_t first = 0, last = 0;
    std::vector<char> reached;
    bool holds(std::size_t i) const { return i >= first && i <= last && reached[i - first]; }
  };

  const std::vector<double>& time_of(std::size_t p) const { return line_.time_s[seats_[p].speed_class]; }
  double lower_bound_s() const;
  double upper_bound_s() const;
  bool crosses_within(std::size_t p, std::size_t cut, double bound_s) const;
  bool bound_starts(double bound_s);
  bool fill_starts(std::size_t p, double bound_s);
  std::optional<Partition> partition_within(double bound_s);
  Partition read_back(double bound_s) const;

  const Line& line_;
  std::span<const Seat> seats_;
  std::span<const Hop> hops_;
  std::size_t num_units_;
  std::vector<Starts> starts_;
  std::vector<std::size_t> window_;
};

/// Whether the boundary before seat p + 1 may be at `cut`.
bool BottleneckSearch::crosses_within(std::size_t p, std::size_t cut, double bound_s) const {
  if (p + 1 == seats_.size()) return cut == num_units_;
  return busy_s(line_, hops_[p], cut) <= bound_s;
}

/// No plan is below its dearest boundary's cheapest cut, nor below the share of all work if every seat were the fastest
/// there is for each unit.
double BottleneckSearch::lower_bound_s() const {
  double bound = 0;
  for (std::size_t p = 0; p + 1 < seats_.size(); ++p) {
    double cheapest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i < num_units_; ++i) cheapest = std::min(cheapest, busy_s(line_, hops_[p], i));
    bound = std::max(bound, cheapest);
  }
  double work = 0;
  for (std::size_t i = 0; i < num_units_; ++i) {
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& time : line_.time_s) fastest = std::min(fastest, time[i + 1] - time[i]);
    work += fastest;
  }
  return std::max(bound, work / static_cast<double>(seats_.size()));
}

/// Above what any plan can take: all work on one seat, the largest of all cuts on the slowest hop.
double BottleneckSearch::upper_bound_s() const {
  const auto largest = [](const std::vector<double>& by_cut) {
    return *std::max_element(by_cut.begin(), by_cut.end());
  };
  const double bytes = std::max(largest(line_.forward_bytes), largest(line_.backward_bytes));
  double bound = 0;
  for (const Seat& seat : seats_) bound = std::max(bound, line_.time_s[seat.speed_class].back());
  for (const Hop& hop : hops_)
    for (const Direction& way : {hop.forward, hop.backward})
      bound = std::max(bound, bytes * way.s_per_byte * way.contention);
  return bound;
}

/// Greedy bounds by time alone: the latest cut that seats before p can reach, the earliest that those from p on can
/// finish from. False where they cross.
bool BottleneckSearch::bound_starts(double bound_s) {
  const std::size_t num_seats = seats_.size();
  starts_.resize(num_seats + 1);
  starts_[0] = {};
  for (std::size_t p = 0; p < num_seats; ++p) {
    const auto& time = time_of(p);
    std::size_t end = starts_[p].last;
    const std::size_t most = num_units_ - (num_seats - 1 - p);
    while (end < most && time[end + 1] - time[starts_[p].last] <= bound_s) ++end;
    starts_[p + 1].last = end;
  }
  if (starts_[num_seats].last < num_units_) return false;
  starts_[num_seats].first = num_units_;
  for (std::size_t p = num_seats; p-- > 0;) {
    const auto& time = time_of(p);
    std::size_t begin = starts_[p + 1].first;
    while (begin > p && time[starts_[p + 1].first] - time[begin - 1] <= bound_s) --begin;
    starts_[p].first = begin;
    if (begin > starts_[p].last) return false;
  }
  for (Starts& starts : starts_) starts.reached.assign(starts.last - starts.first + 1, 0);
  starts_[0].reached[0] = 1;
  return true;
}

/// Fills the cuts that seat p can end at, from those that it can start at. False where there are none.
bool BottleneckSearch::fill_starts(std::size_t p, double bound_s) {
  const MemoryTerms memory(line_, seats_[p]);
  const auto& time = time_of(p);
  const Starts& from = starts_[p];
  Starts& to = starts_[p + 1];
  bool any = false;
  window_.clear();
  std::size_t head = 0, next = from.first;
  for (std::size_t i = to.first; i <= to.last; ++i) {
    for (; next < i && next <= from.last; ++next) {
      if (!from.reached[next - from.first]) continue;
      while (window_.size() > head && memory.at_start(window_.back()) <= memory.at_start(next)) window_.pop_back();
      window_.push_back(next);
    }
    while (head < window_.size() && time[i] - time[window_[head]] > bound_s) ++head;
    if (head == window_.size()) continue;
    if (memory.at_end(i) - memory.at_start(window_[head]) > seats_[p].memory_bytes) continue;
    if (!crosses_within(p, i, bound_s)) continue;
    to.reached[i - to.first] = 1;
    any = true;
  }
  return any;
}

/// Walks back from the end; any start that fits will do.
Partition BottleneckSearch::read_back(double bound_s) const {
  Partition result;
  result.seats.resize(seats_.size());
  result.cuts.assign(seats_.size() + 1, num_units_);
  std::iota(result.seats.begin(), result.seats.end(), std::size_t{0});
  std::vector<std::size_t>& cuts = result.cuts;
  for (std::size_t p = seats_.size(); p-- > 0;) {
    const auto& time = time_of(p);
    std::size_t j = std::min(cuts[p + 1] - 1, starts_[p].last);
    const auto fits = [&](std::size_t start) {
      return starts_[p].holds(start) && time[cuts[p + 1]] - time[start] <= bound_s &&
             memory_bytes(line_, seats_[p], start, cuts[p + 1]) <= seats_[p].memory_bytes;
    };
    while (!fits(j)) {
      check(j > starts_[p].first, "a reached cut has a start");
      --j;
    }
    cuts[p] = j;
  }
  return priced(line_, seats_, hops_, std::move(result));
}

std::optional<Partition> BottleneckSearch::partition_within(double bound_s) {
  if (!bound_starts(bound_s)) return {};
  for (std::size_t p = 0; p < seats_.size(); ++p)
    if (!fill_starts(p, bound_s)) return {};
  return read_back(bound_s);
}

std::optional<Partition> BottleneckSearch::run() {
  double low = lower_bound_s();
  if (auto best = partition_within(low)) return best;
  std::optional<Partition> best = partition_within(upper_bound_s());
  if (!best) return {};
  constexpr double exact = 1 - 1e-12;
  while (low < best->bottleneck_s * exact) {
    // A bound just below what we have settles most searches early: nothing there means that we are done.
    const double middle = std::sqrt(low * best->bottleneck_s);
    for (const double bound : {best->bottleneck_s * exact, std::max(middle, low)}) {
      if (bound >= best->bottleneck_s) continue;
      if (auto better = partition_within(bound))
        best = std::move(better);
      else
        low = std::max(low, bound);
    }
  }
  return best;
}

}  // namespace

std::optional<Partition> min_bottleneck(const Line& line, std::span<const Seat> seats, std::span<const Hop> hops) {
  check(!seats.empty() && seats.size() <= line.num_units(), "every seat gets a unit");
  check(hops.size() + 1 == seats.size(), "a hop between neighbouring seats");
  return BottleneckSearch(line, seats, hops).run();
}

}  // namespace fusion
