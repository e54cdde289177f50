// DT-FM's scheduler. The local search never asks for the score: it follows gains of single moves, as published.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include "core/plan/dt_fm.h"

namespace fusion {
namespace {

constexpr std::size_t num_crossed = 5;  ///< devices that a child has where its first parent has them

/// A device that leaves its group for another.
struct Move {
  std::size_t device, from, to;
  double gain;
};

/// Devices in groups that may differ in size by one while a circle of moves is open.
class CircularSearch {
 public:
  CircularSearch(const DtFmPrices& prices, Grouping start)
      : prices_(prices),
        grouping_(std::move(start)),
        sums_(grouping_.size() * prices.num_groups),
        locked_(grouping_.size()),
        sizes_(prices.num_groups, prices.group_size()) {
    for (std::size_t d = 0; d < grouping_.size(); ++d)
      for (std::size_t other = 0; other < grouping_.size(); ++other) sum(d, grouping_[other]) += cost(d, other);
  }

  /// Circles until every group was moved into; keeps the prefix of circles that gained most.
  Grouping run() {
    Grouping best = grouping_;
    double gained = 0, most = 0;
    std::vector<bool> entered(prices_.num_groups);
    for (std::size_t circle = 0; circle < prices_.num_groups; ++circle) {
      const std::optional<double> gain = close_circle(entered);
      if (!gain) break;
      gained += *gain;
      if (gained > most) {
        most = gained;
        best = grouping_;
      }
      if (std::ranges::all_of(entered, [](bool each) { return each; })) break;
    }
    return best;
  }

 private:
  double cost(std::size_t a, std::size_t b) const { return prices_.boundary_s.at(a, b); }
  double& sum(std::size_t device, std::size_t group) { return sums_[device * prices_.num_groups + group]; }

  /// The nearest mate in its own group: what moving the device away sets free for a pipeline edge.
  double nearest_mate_s(std::size_t device) const {
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < grouping_.size(); ++d)
      if (d != device && grouping_[d] == grouping_[device]) nearest = std::min(nearest, cost(device, d));
    return nearest;
  }

  double gain(std::size_t device, std::size_t to, double nearest_s) {
    return sum(device, to) / static_cast<double>(sizes_[to]) - nearest_s;
  }

  /// The device of a group that has the nearest mate goes where it is farthest from on average.
  std::optional<Move> best_move(std::size_t from) {
    std::optional<std::size_t> device;
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < grouping_.size(); ++d) {
      if (grouping_[d] != from || locked_[d]) continue;
      if (const double mate = nearest_mate_s(d); mate < nearest) {
        nearest = mate;
        device = d;
      }
    }
    if (!device) return {};
    std::optional<Move> best;
    for (std::size_t g = 0; g < prices_.num_groups; ++g)
      if (g != from)
        if (const double gained = gain(*device, g, nearest); !best || gained > best->gain)
          best = Move{*device, from, g, gained};
    return best;
  }

  void move(std::size_t device, std::size_t to) {
    const std::size_t from = grouping_[device];
    for (std::size_t d = 0; d < grouping_.size(); ++d) {
      sum(d, from) -= cost(d, device);
      sum(d, to) += cost(d, device);
    }
    --sizes_[from];
    ++sizes_[to];
    grouping_[device] = to;
  }

  std::optional<std::size_t> best_start() {
    std::optional<std::size_t> start;
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < prices_.num_groups; ++g)
      if (const auto best = best_move(g); best && best->gain > most) {
        most = best->gain;
        start = g;
      }
    return start;
  }

  /// From the group whose best move gains most, on from the group moved into, until back at the first. At each step the
  /// circle could be closed at once; what stays is the circle that gained most, if any did.
  std::optional<double> close_circle(std::vector<bool>& entered) {
    const std::optional<std::size_t> start = best_start();
    if (!start) return {};
    std::vector<Move> moves;
    std::size_t group = *start, kept = 0, closing = 0;
    double gained = 0, most = 0;
    while (const auto next = best_move(group)) {
      const double closed = gained + gain(next->device, *start, nearest_mate_s(next->device));
      if (!moves.empty() && closed > most) {
        most = closed;
        kept = moves.size();
        closing = next->device;
      }
      gained += next->gain;
      moves.push_back(*next);
      move(next->device, next->to);
      locked_[next->device] = true;
      entered[next->to] = true;
      group = next->to;
      if (group == *start) break;
    }
    for (std::size_t i = moves.size(); i-- > kept;) move(moves[i].device, moves[i].from);
    if (kept > 0) move(closing, *start);
    return most;
  }

  const DtFmPrices& prices_;
  Grouping grouping_;
  std::vector<double> sums_;  ///< of a device's costs to the members of a group
  std::vector<bool> locked_;
  std::vector<std::size_t> sizes_;
};

/// The second parent, with five devices where the first has them; groups that got too large give to those too small.
Grouping crossed(const DtFmPrices& prices, const Grouping& first, Grouping second, std::mt19937_64& random) {
  std::vector<std::size_t> points(first.size());
  std::iota(points.begin(), points.end(), std::size_t{0});
  std::ranges::shuffle(points, random);
  points.resize(std::min(points.size(), num_crossed));
  for (const std::size_t point : points) second[point] = first[point];
  std::vector<std::size_t> sizes(prices.num_groups);
  for (const std::size_t group : second) ++sizes[group];
  for (std::size_t& group : second) {
    if (sizes[group] <= prices.group_size()) continue;
    const auto small = std::ranges::find_if(sizes, [&](std::size_t size) { return size < prices.group_size(); });
    --sizes[group];
    ++*small;
    group = static_cast<std::size_t>(small - sizes.begin());
  }
  return second;
}

Grouping random_grouping(const DtFmPrices& prices, std::mt19937_64& random) {
  Grouping grouping(prices.devices.size());
  for (std::size_t d = 0; d < grouping.size(); ++d) grouping[d] = d / prices.group_size();
  std::ranges::shuffle(grouping, random);
  return grouping;
}

}  // namespace

DtFmSearch dt_fm_genetic(const DtFmPrices& prices, const GeneticOptions& options) {
  std::mt19937_64 random(options.seed);
  struct Individual {
    Grouping grouping;
    DtFmScore score;
  };
  std::vector<Individual> population;
  const auto evaluated = [&](Grouping grouping) {
    DtFmScore score = dt_fm_score(prices, grouping);
    return Individual{std::move(grouping), std::move(score)};
  };
  for (std::size_t i = 0; i < options.population; ++i) population.push_back(evaluated(random_grouping(prices, random)));
  std::uniform_int_distribution<std::size_t> any(0, population.size() - 1);
  for (std::size_t trial = 0; trial < options.trials; ++trial) {
    Individual& first = population[any(random)];
    Individual& second = population[any(random)];
    Individual child =
        evaluated(CircularSearch(prices, crossed(prices, first.grouping, second.grouping, random)).run());
    Individual& worse = first.score.total() > second.score.total() ? first : second;
    if (child.score.total() <= worse.score.total()) worse = std::move(child);
  }
  const auto best = std::ranges::min_element(population, {}, [](const Individual& each) { return each.score.total(); });
  return {best->grouping, best->score, options.population + options.trials};
}

}  // namespace fusion
