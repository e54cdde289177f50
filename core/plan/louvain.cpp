#include "core/plan/louvain.h"

#include <algorithm>
#include <numeric>

namespace fusion {
namespace {

/// A gain below this share of all weight is rounding: acting on it could move a node for ever.
constexpr double smallest_gain = 1e-12;

SquareMatrix symmetrised(const SquareMatrix& w) {
  SquareMatrix a(w.size);
  for (std::size_t i = 0; i < w.size; ++i)
    for (std::size_t j = 0; j < w.size; ++j) a.at(i, j) = w.at(i, j) + w.at(j, i);
  return a;
}

std::vector<double> row_sums(const SquareMatrix& a) {
  std::vector<double> sums(a.size);
  for (std::size_t i = 0; i < a.size; ++i)
    sums[i] = std::accumulate(&a.values[i * a.size], &a.values[i * a.size] + a.size, 0.0);
  return sums;
}

/// Renumbers communities in the order of their first members; returns how many there are.
std::size_t renumber(std::vector<std::size_t>& community) {
  const std::size_t unseen = community.size();
  std::vector<std::size_t> number(community.size(), unseen);
  std::size_t count = 0;
  for (std::size_t& c : community) {
    if (number[c] == unseen) number[c] = count++;
    c = number[c];
  }
  return count;
}

/// One level: moves single nodes until none gains.
class LocalMoving {
 public:
  LocalMoving(const SquareMatrix& a, double resolution)
      : a_(a), strength_(row_sums(a)), total_(strength_), weight_to_(a.size), community_(a.size) {
    std::iota(community_.begin(), community_.end(), std::size_t{0});
    all_weight_ = std::accumulate(strength_.begin(), strength_.end(), 0.0);
    penalty_ = all_weight_ > 0 ? resolution / all_weight_ : 0;
  }

  std::vector<std::size_t> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t i = 0; i < a_.size; ++i) moved |= move(i);
    }
    return community_;
  }

 private:
  /// Half of W times what Q gains when `i` joins `c`, up to a constant.
  double gain(std::size_t i, std::size_t c) const { return weight_to_[c] - penalty_ * strength_[i] * total_[c]; }

  void sum_weights_to_communities(std::size_t i) {
    std::fill(weight_to_.begin(), weight_to_.end(), 0.0);
    for (std::size_t j = 0; j < a_.size; ++j)
      if (j != i) weight_to_[community_[j]] += a_.at(i, j);
  }

  bool move(std::size_t i) {
    const std::size_t own = community_[i];
    sum_weights_to_communities(i);
    total_[own] -= strength_[i];
    std::size_t best = own;
    double best_gain = gain(i, own) + smallest_gain * all_weight_;
    for (std::size_t c = 0; c < a_.size; ++c)
      if (weight_to_[c] > 0 && gain(i, c) > best_gain) {
        best = c;
        best_gain = gain(i, c);
      }
    total_[best] += strength_[i];
    community_[i] = best;
    return best != own;
  }

  const SquareMatrix& a_;
  std::vector<double> strength_;   ///< sum of a node's row
  std::vector<double> total_;      ///< sum of a community's rows
  std::vector<double> weight_to_;  ///< from the node in hand to each community
  std::vector<std::size_t> community_;
  double all_weight_ = 0, penalty_ = 0;
};

/// Communities become nodes; what they hold inside stands on the diagonal, both directions.
SquareMatrix aggregated(const SquareMatrix& a, const std::vector<std::size_t>& community, std::size_t count) {
  SquareMatrix coarse(count);
  for (std::size_t i = 0; i < a.size; ++i)
    for (std::size_t j = 0; j < a.size; ++j) coarse.at(community[i], community[j]) += a.at(i, j);
  return coarse;
}

}  // namespace

std::vector<std::size_t> louvain(const SquareMatrix& weights, double resolution) {
  SquareMatrix a = symmetrised(weights);
  std::vector<std::size_t> community(weights.size);
  std::iota(community.begin(), community.end(), std::size_t{0});
  for (;;) {
    std::vector<std::size_t> merged = LocalMoving(a, resolution).run();
    const std::size_t count = renumber(merged);
    for (std::size_t& c : community) c = merged[c];
    if (count == a.size) break;
    a = aggregated(a, merged, count);
  }
  renumber(community);
  return community;
}

double modularity(const SquareMatrix& weights, std::span<const std::size_t> community, double resolution) {
  const SquareMatrix a = symmetrised(weights);
  const std::vector<double> strength = row_sums(a);
  const double all = std::accumulate(strength.begin(), strength.end(), 0.0);
  if (all == 0) return 0;
  std::vector<double> inside(a.size), total(a.size);
  for (std::size_t i = 0; i < a.size; ++i) {
    total[community[i]] += strength[i];
    for (std::size_t j = 0; j < a.size; ++j)
      if (community[i] == community[j]) inside[community[i]] += a.at(i, j);
  }
  double q = 0;
  for (std::size_t c = 0; c < a.size; ++c) q += inside[c] / all - resolution * (total[c] / all) * (total[c] / all);
  return q;
}

std::vector<std::vector<std::size_t>> members_of(std::span<const std::size_t> community) {
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < community.size(); ++i) {
    if (community[i] >= members.size()) members.resize(community[i] + 1);
    members[community[i]].push_back(i);
  }
  return members;
}

}  // namespace fusion
