#include "core/plan/device_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace fusion {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t many_places = 250;     ///< beyond, less effort per place
constexpr std::size_t max_moved = 3;         ///< places that Or-opt moves together
constexpr double least_improvement = 1e-12;  ///< relative; less is rounding

std::vector<std::size_t> nearest_neighbour_path(const SquareMatrix& costs, std::size_t start) {
  std::vector<std::size_t> path = {start};
  std::vector<bool> visited(costs.size);
  visited[start] = true;
  while (path.size() < costs.size) {
    std::size_t next = costs.size;
    for (std::size_t b = 0; b < costs.size; ++b)
      if (!visited[b] && (next == costs.size || costs.at(path.back(), b) < costs.at(path.back(), next))) next = b;
    visited[next] = true;
    path.push_back(next);
  }
  return path;
}

std::size_t max_starts(std::size_t num_places) { return num_places <= many_places ? 16 : 4; }
std::size_t max_sweeps(std::size_t num_places) { return num_places <= many_places ? 30 : 1; }

/// Improves a path in place. Sums of the path as it stands and of its reverse make the price of any reversal O(1),
/// though costs are directed.
class PathSearch {
 public:
  PathSearch(const SquareMatrix& costs, std::vector<std::size_t> path) : costs_(costs), path_(std::move(path)) {
    update_sums();
  }

  std::vector<std::size_t> run() {
    for (std::size_t sweep = 0; sweep < max_sweeps(size()); ++sweep)
      if (!(reverse_segments() | move_segments())) break;
    return path_;
  }

 private:
  std::size_t size() const { return path_.size(); }

  /// Cost from position i to position j; nothing beyond either end of an open path.
  double step(std::size_t i, std::size_t j) const {
    return i >= size() || j >= size() ? 0.0 : costs_.at(path_[i], path_[j]);
  }

  void update_sums() {
    ahead_.assign(size(), 0.0);
    back_.assign(size(), 0.0);
    for (std::size_t i = 1; i < size(); ++i) {
      ahead_[i] = ahead_[i - 1] + step(i - 1, i);
      back_[i] = back_[i - 1] + step(i, i - 1);
    }
  }

  bool improves(double change) const { return change < -least_improvement * (ahead_.back() + 1e-300); }

  double change_if_reversed(std::size_t first, std::size_t last) const {
    const double inside = (back_[last] - back_[first]) - (ahead_[last] - ahead_[first]);
    return inside + step(first - 1, last) + step(first, last + 1) - step(first - 1, first) - step(last, last + 1);
  }

  bool reverse_segments() {
    bool improved = false;
    for (std::size_t first = 0; first < size(); ++first)
      for (std::size_t last = first + 1; last < size(); ++last) {
        if (!improves(change_if_reversed(first, last))) continue;
        std::reverse(path_.begin() + static_cast<std::ptrdiff_t>(first),
                     path_.begin() + static_cast<std::ptrdiff_t>(last) + 1);
        update_sums();
        improved = true;
      }
    return improved;
  }

  /// Change when [first, last] moves between positions `before` and before + 1, as it stands or reversed.
  double change_if_moved(std::size_t first, std::size_t last, std::size_t before, bool reversed) const {
    const double closed = step(first - 1, last + 1) - step(first - 1, first) - step(last, last + 1);
    const std::size_t head = reversed ? last : first, tail = reversed ? first : last;
    const double opened = step(before, head) + step(tail, before + 1) - step(before, before + 1);
    const double inside = (back_[last] - back_[first]) - (ahead_[last] - ahead_[first]);
    return closed + opened + (reversed ? inside : 0.0);
  }

  void move(std::size_t first, std::size_t last, std::size_t before, bool reversed) {
    const auto at = [&](std::size_t i) { return path_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (reversed) std::reverse(at(first), at(last + 1));
    if (before + 1 > last)
      std::rotate(at(first), at(last + 1), at(before + 1));
    else
      std::rotate(at(before + 1), at(first), at(last + 1));
    update_sums();
  }

  bool move_segment(std::size_t first, std::size_t last) {
    // Position size_t(-1) is the gap before the first place: before + 1 wraps to 0, and step() sees no place there.
    for (std::size_t gap = 0; gap <= size(); ++gap) {
      const std::size_t before = gap - 1;
      if (gap >= first && gap <= last + 1) continue;
      for (const bool reversed : {false, true})
        if (improves(change_if_moved(first, last, before, reversed))) return move(first, last, before, reversed), true;
    }
    return false;
  }

  bool move_segments() {
    bool improved = false;
    for (std::size_t length = 1; length <= max_moved; ++length)
      for (std::size_t first = 0; first + length <= size(); ++first)
        improved |= move_segment(first, first + length - 1);
    return improved;
  }

  const SquareMatrix& costs_;
  std::vector<std::size_t> path_;
  std::vector<double> ahead_, back_;  ///< cost of the path from its start to each position; of its reverse
};

}  // namespace

double path_cost(const SquareMatrix& costs, std::span<const std::size_t> path) {
  double sum = 0;
  for (std::size_t i = 1; i < path.size(); ++i) sum += costs.at(path[i - 1], path[i]);
  return sum;
}

std::vector<std::size_t> held_karp_path(const SquareMatrix& costs) {
  const std::size_t n = costs.size, subsets = std::size_t{1} << n;
  check(n <= max_exact_path, "too many places for the exact path");
  if (n == 0) return {};
  // best[visited * n + last]: cheapest path through `visited` that ends at `last`; previous: the place before it.
  std::vector<double> best(subsets * n, infinity);
  std::vector<std::uint8_t> previous(subsets * n);
  for (std::size_t start = 0; start < n; ++start) best[(std::size_t{1} << start) * n + start] = 0;
  for (std::size_t visited = 1; visited < subsets; ++visited)
    for (std::size_t last = 0; last < n; ++last) {
      const double so_far = best[visited * n + last];
      if (so_far == infinity) continue;
      for (std::size_t next = 0; next < n; ++next) {
        if (visited >> next & 1) continue;
        const std::size_t state = (visited | std::size_t{1} << next) * n + next;
        const double cost = so_far + costs.at(last, next);
        if (cost >= best[state]) continue;
        best[state] = cost;
        previous[state] = static_cast<std::uint8_t>(last);
      }
    }

  const auto ends = best.begin() + static_cast<std::ptrdiff_t>((subsets - 1) * n);
  std::vector<std::size_t> path(n);
  std::size_t visited = subsets - 1, last = static_cast<std::size_t>(std::min_element(ends, best.end()) - ends);
  for (std::size_t i = n; i-- > 0;) {
    path[i] = last;
    const std::size_t before = previous[visited * n + last];
    visited ^= std::size_t{1} << last;
    last = before;
  }
  return path;
}

std::vector<std::size_t> local_search_path(const SquareMatrix& costs) {
  if (costs.size == 0) return {};
  std::vector<std::size_t> best;
  double best_cost = infinity;
  const std::size_t stride = (costs.size + max_starts(costs.size) - 1) / max_starts(costs.size);
  for (std::size_t start = 0; start < costs.size; start += stride) {
    std::vector<std::size_t> path = nearest_neighbour_path(costs, start);
    if (const double cost = path_cost(costs, path); cost < best_cost) {
      best_cost = cost;
      best = std::move(path);
    }
  }
  return PathSearch(costs, std::move(best)).run();
}

std::vector<std::size_t> shortest_open_path(const SquareMatrix& costs) {
  return costs.size <= max_exact_path ? held_karp_path(costs) : local_search_path(costs);
}

}  // namespace fusion
