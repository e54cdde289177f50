#include "core/plan/dt_fm.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/device_order.h"

namespace fusion {
namespace {

/// Kuhn's augmenting paths in the graph of the entries up to a limit.
class Matching {
 public:
  Matching(const SquareMatrix& costs, double limit) : costs_(costs), limit_(limit), row_of_(costs.size, costs.size) {}

  bool is_perfect() {
    for (std::size_t row = 0; row < costs_.size; ++row) {
      seen_.assign(costs_.size, false);
      if (!augment(row)) return false;
    }
    return true;
  }

  std::vector<std::size_t> columns() const {
    std::vector<std::size_t> column(costs_.size);
    for (std::size_t c = 0; c < costs_.size; ++c) column[row_of_[c]] = c;
    return column;
  }

 private:
  bool augment(std::size_t row) {
    for (std::size_t c = 0; c < costs_.size; ++c) {
      if (seen_[c] || costs_.at(row, c) > limit_) continue;
      seen_[c] = true;
      if (row_of_[c] != costs_.size && !augment(row_of_[c])) continue;
      row_of_[c] = row;
      return true;
    }
    return false;
  }

  const SquareMatrix& costs_;
  double limit_;
  std::vector<std::size_t> row_of_;  ///< by column; size: none
  std::vector<bool> seen_;
};

/// No matching is below the least entry of any row or column.
double least_possible(const SquareMatrix& costs) {
  double bound = 0;
  for (std::size_t i = 0; i < costs.size; ++i) {
    double row = costs.at(i, 0), column = costs.at(0, i);
    for (std::size_t j = 1; j < costs.size; ++j) {
      row = std::min(row, costs.at(i, j));
      column = std::min(column, costs.at(j, i));
    }
    bound = std::max({bound, row, column});
  }
  return bound;
}

std::vector<std::vector<std::size_t>> members(const DtFmPrices& prices, const Grouping& grouping) {
  std::vector<std::vector<std::size_t>> groups(prices.num_groups);
  for (std::size_t d = 0; d < grouping.size(); ++d) groups[grouping[d]].push_back(d);
  for (const auto& group : groups) check(group.size() == prices.group_size(), "groups that differ in size");
  return groups;
}

SquareMatrix between(const DtFmPrices& prices, const std::vector<std::size_t>& from,
                     const std::vector<std::size_t>& to) {
  SquareMatrix costs(from.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t j = 0; j < to.size(); ++j) costs.at(i, j) = prices.boundary_s.at(from[i], to[j]);
  return costs;
}

double data_parallel_s(const DtFmPrices& prices, const std::vector<std::size_t>& group) {
  double slowest = 0;
  for (const std::size_t d : group) {
    double sum = 0;
    for (const std::size_t other : group) sum += prices.exchange_s.at(d, other);
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

}  // namespace

DtFmPrices dt_fm_prices(const Platform& platform, std::vector<DeviceId> devices, std::size_t num_groups,
                        const DtFmVolumes& volumes) {
  check(num_groups > 0 && devices.size() % num_groups == 0, "devices that don't divide into the groups");
  DtFmPrices prices{std::move(devices), num_groups, SquareMatrix(), SquareMatrix()};
  const std::size_t n = prices.devices.size();
  const double shard_bytes =
      static_cast<double>(volumes.data_parallel.value) / static_cast<double>(prices.group_size());
  const auto boundary_bytes = static_cast<double>(volumes.pipeline.value);
  prices.exchange_s = prices.boundary_s = SquareMatrix(n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        const Route way = route(platform, prices.devices[from], prices.devices[to]);
        prices.exchange_s.at(a, b) += way.latency.value + shard_bytes / way.bandwidth.value;
        prices.boundary_s.at(a, b) += way.latency.value + boundary_bytes / way.bandwidth.value;
      }
    }
  return prices;
}

BottleneckMatching bottleneck_matching(const SquareMatrix& costs) {
  const double bound = least_possible(costs);
  if (Matching first(costs, bound); first.is_perfect()) return {bound, first.columns()};
  std::vector<double> limits;
  for (const double cost : costs.values)
    if (cost > bound) limits.push_back(cost);
  std::ranges::sort(limits);
  const auto [end, last] = std::ranges::unique(limits);
  limits.erase(end, last);
  const auto least =
      std::ranges::partition_point(limits, [&](double limit) { return !Matching(costs, limit).is_perfect(); });
  check(least != limits.end(), "all entries allow a perfect matching");
  Matching found(costs, *least);
  found.is_perfect();
  return {*least, found.columns()};
}

DtFmScore dt_fm_score(const DtFmPrices& prices, const Grouping& grouping) {
  const auto groups = members(prices, grouping);
  DtFmScore score;
  SquareMatrix edges(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    score.data_parallel = std::max(score.data_parallel, Seconds(data_parallel_s(prices, groups[g])));
    for (std::size_t h = g + 1; h < groups.size(); ++h)
      edges.at(g, h) = edges.at(h, g) = bottleneck_matching(between(prices, groups[g], groups[h])).largest;
  }
  score.path = shortest_open_path(edges);
  score.pipeline = Seconds(path_cost(edges, score.path));
  return score;
}

std::vector<std::vector<DeviceId>> dt_fm_pipelines(const DtFmPrices& prices, const Grouping& grouping,
                                                   const DtFmScore& score) {
  const auto groups = members(prices, grouping);
  std::vector<std::size_t> place(prices.group_size());  // of each pipeline, in its latest group
  for (std::size_t r = 0; r < place.size(); ++r) place[r] = r;
  std::vector<std::vector<DeviceId>> pipelines(place.size());
  for (std::size_t j = 0; j < score.path.size(); ++j) {
    const auto& group = groups[score.path[j]];
    if (j > 0) {
      const auto next = bottleneck_matching(between(prices, groups[score.path[j - 1]], group)).column;
      for (std::size_t& each : place) each = next[each];
    }
    for (std::size_t r = 0; r < place.size(); ++r) pipelines[r].push_back(prices.devices[group[place[r]]]);
  }
  return pipelines;
}

}  // namespace fusion
