#include "core/plan/op_fence_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace fusion {
namespace {

using Clusters = std::vector<std::vector<std::size_t>>;

constexpr std::size_t max_levels = 24;  ///< distinct prices that clusters are made for
constexpr double rounding = 1e-12;      ///< relative

/// Devices joined by pairs of at most `limit`, directly or through others.
Clusters joined_up_to(const SquareMatrix& costs, double limit) {
  std::vector<std::size_t> cluster(costs.size);
  std::iota(cluster.begin(), cluster.end(), std::size_t{0});
  for (std::size_t a = 0; a < costs.size; ++a)
    for (std::size_t b = a + 1; b < costs.size; ++b)
      if (costs.at(a, b) <= limit && cluster[a] != cluster[b])
        std::ranges::replace(cluster, std::size_t{cluster[b]}, std::size_t{cluster[a]});
  Clusters clusters(costs.size);
  for (std::size_t d = 0; d < costs.size; ++d) clusters[cluster[d]].push_back(d);
  std::erase_if(clusters, [](const auto& each) { return each.empty(); });
  return clusters;
}

/// At every distinct price, finest first; clusterings that repeat are left out.
std::vector<Clusters> clusterings(const SquareMatrix& costs) {
  std::vector<double> prices = costs.values;
  std::ranges::sort(prices);
  const auto same = [](double a, double b) { return b - a <= rounding * b; };
  prices.erase(std::unique(prices.begin(), prices.end(), same), prices.end());
  std::vector<Clusters> found;
  const std::size_t stride = prices.size() / max_levels + 1;
  for (std::size_t i = 0; i < prices.size(); i += stride) {
    Clusters clusters = joined_up_to(costs, prices[i] * (1 + rounding));
    if (found.empty() || found.back() != clusters) found.push_back(std::move(clusters));
  }
  return found;
}

/// Devices that can stand for each other: the same price to every third.
std::vector<std::size_t> twins(const DtFmPrices& prices) {
  const std::size_t n = prices.devices.size();
  const auto alike = [&](std::size_t a, std::size_t b) {
    for (std::size_t c = 0; c < n; ++c)
      if (c != a && c != b &&
          (prices.boundary_s.at(a, c) != prices.boundary_s.at(b, c) ||
           prices.exchange_s.at(a, c) != prices.exchange_s.at(b, c)))
        return false;
    return true;
  };
  std::vector<std::size_t> first;
  std::vector<std::size_t> kind(n);
  for (std::size_t d = 0; d < n; ++d) {
    const auto twin = std::ranges::find_if(first, [&](std::size_t other) { return alike(other, d); });
    kind[d] = static_cast<std::size_t>(twin - first.begin());
    if (twin == first.end()) first.push_back(d);
  }
  return kind;
}

class GroupSearch {
 public:
  GroupSearch(const DtFmPrices& prices, const FenceGroupsOptions& options)
      : prices_(prices), options_(options), kind_(twins(prices)), random_(options.seed) {
    for (std::size_t a = 0; a < size(); ++a)
      for (std::size_t b = 0; b < size(); ++b)
        if (a != b) least_boundary_s_ = std::min(least_boundary_s_, prices.boundary_s.at(a, b));
    if (prices.num_groups == 1) least_boundary_s_ = 0;
  }

  DtFmSearch run() {
    for (Clusters& clusters : clusterings(prices_.boundary_s)) {
      std::ranges::stable_sort(clusters, std::greater{}, &std::vector<std::size_t>::size);
      try_grouping(spread(clusters));
      try_grouping(together(clusters));
    }
    while (improve()) {
    }
    return std::move(best_);
  }

 private:
  std::size_t size() const { return prices_.devices.size(); }

  /// Cluster by cluster, each device into the group with the fewest of its cluster that has room.
  Grouping spread(const Clusters& clusters) const {
    Grouping grouping(size());
    std::vector<std::size_t> room(prices_.num_groups, prices_.group_size());
    for (const auto& cluster : clusters) {
      std::vector<std::size_t> here(prices_.num_groups);
      for (const std::size_t device : cluster) {
        std::size_t best = prices_.num_groups;
        for (std::size_t g = 0; g < prices_.num_groups; ++g)
          if (room[g] > 0 && (best == prices_.num_groups || here[g] < here[best])) best = g;
        grouping[device] = best;
        --room[best];
        ++here[best];
      }
    }
    return grouping;
  }

  /// Cluster by cluster, group by group.
  Grouping together(const Clusters& clusters) const {
    Grouping grouping(size());
    std::size_t placed = 0;
    for (const auto& cluster : clusters)
      for (const std::size_t device : cluster) grouping[device] = placed++ / prices_.group_size();
    return grouping;
  }

  /// What decides the score: how many of each kind each group has, whatever the groups' numbers.
  std::multiset<std::vector<std::size_t>> essence(const Grouping& grouping) const {
    std::vector<std::vector<std::size_t>> groups(prices_.num_groups);
    for (std::size_t d = 0; d < size(); ++d) groups[grouping[d]].push_back(kind_[d]);
    for (auto& group : groups) std::ranges::sort(group);
    return {groups.begin(), groups.end()};
  }

  bool exhausted() const { return best_.num_evaluations >= options_.max_evaluations; }

  bool try_grouping(const Grouping& grouping) {
    if (exhausted() || !seen_.insert(essence(grouping)).second) return false;
    ++best_.num_evaluations;
    DtFmScore score = dt_fm_score(prices_, grouping);
    if (!best_.grouping.empty() && score.total().value >= best_.score.total().value * (1 - rounding)) return false;
    best_.grouping = grouping;
    best_.score = std::move(score);
    return true;
  }

  double data_parallel_s(const Grouping& grouping, std::size_t group) const {
    double slowest = 0;
    for (std::size_t d = 0; d < size(); ++d) {
      if (grouping[d] != group) continue;
      double sum = 0;
      for (std::size_t other = 0; other < size(); ++other)
        if (grouping[other] == group) sum += prices_.exchange_s.at(d, other);
      slowest = std::max(slowest, sum);
    }
    return slowest;
  }

  /// No swap that makes its two groups so slow can win, however near their devices are to others.
  bool may_win(const Grouping& grouping, std::size_t g, std::size_t h) const {
    const double pipeline_s = static_cast<double>(prices_.num_groups - 1) * least_boundary_s_;
    const double exchange_s = std::max(data_parallel_s(grouping, g), data_parallel_s(grouping, h));
    return exchange_s + pipeline_s < best_.score.total().value * (1 - rounding);
  }

  /// The first swap of two devices that helps.
  bool improve() {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t a = 0; a < size(); ++a)
      for (std::size_t b = a + 1; b < size(); ++b)
        if (best_.grouping[a] != best_.grouping[b] && kind_[a] != kind_[b]) pairs.emplace_back(a, b);
    std::ranges::shuffle(pairs, random_);
    for (const auto& [a, b] : pairs) {
      if (exhausted()) return false;
      Grouping swapped = best_.grouping;
      std::swap(swapped[a], swapped[b]);
      if (may_win(swapped, swapped[a], swapped[b]) && try_grouping(swapped)) return true;
    }
    return false;
  }

  const DtFmPrices& prices_;
  const FenceGroupsOptions& options_;
  std::vector<std::size_t> kind_;
  std::mt19937_64 random_;
  double least_boundary_s_ = std::numeric_limits<double>::infinity();
  std::set<std::multiset<std::vector<std::size_t>>> seen_;
  DtFmSearch best_;
};

}  // namespace

DtFmSearch op_fence_groups(const DtFmPrices& prices, const FenceGroupsOptions& options) {
  return GroupSearch(prices, options).run();
}

}  // namespace fusion
