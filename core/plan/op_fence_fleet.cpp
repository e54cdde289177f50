#include "core/plan/op_fence_fleet.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "core/plan/device_order.h"
#include "core/plan/louvain.h"

namespace fusion {
namespace {

/// From clusters that hold whole sites to clusters of single hosts, on networks whose levels differ tenfold.
constexpr std::array resolutions = {0.03, 0.1, 0.3, 1.0, 3.0};
constexpr std::size_t max_groups = 1024;
constexpr std::size_t max_single_clusters = 40;  ///< that are tried by themselves, per resolution

using Groups = std::vector<std::size_t>;  // indices into the fleet's groups, in pipeline order

/// Two different devices of the two groups, where there are.
std::pair<DeviceId, DeviceId> ends(const DeviceGroup& a, const DeviceGroup& b) {
  const bool same = a.devices.front() == b.devices.front();
  return {a.devices.front(), same && b.devices.size() > 1 ? b.devices[1] : b.devices.front()};
}

/// Sum of the bandwidths between the members of each pair of groups.
SquareMatrix bandwidths(const Platform& platform, const std::vector<DeviceGroup>& groups) {
  SquareMatrix sums(groups.size());
  for (std::size_t a = 0; a < groups.size(); ++a)
    for (std::size_t b = 0; b < groups.size(); ++b) {
      const auto [from, to] = ends(groups[a], groups[b]);
      if (from == to) continue;
      const std::size_t pairs = groups[a].devices.size() * (groups[b].devices.size() - (a == b ? 1 : 0));
      sums.at(a, b) = static_cast<double>(pairs) * route(platform, from, to).bandwidth.value;
    }
  return sums;
}

class OrderFinder {
 public:
  OrderFinder(const Platform& platform, const std::vector<DeviceGroup>& groups, DType dtype,
              const TypicalMessage& message)
      : platform_(platform), groups_(groups), dtype_(dtype), message_(message), costs_(groups.size()) {
    for (std::size_t a = 0; a < groups.size(); ++a)
      for (std::size_t b = 0; b < groups.size(); ++b) costs_.at(a, b) = hop_cost(a, b);
  }

  std::vector<std::vector<DeviceId>> run() {
    const std::vector<std::vector<Groups>> clusterings = find_clusterings();
    for (const auto& clusters : clusterings) add_paths(clusters);
    for (const auto& clusters : clusterings)
      for (std::size_t c = 0; c < std::min(clusters.size(), max_single_clusters); ++c) add_cluster(clusters[c]);
    Groups all(groups_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    add(fastest_first(all));
    return std::move(orders_);
  }

 private:
  /// The different ones among the resolutions, each cluster's members in pipeline order.
  std::vector<std::vector<Groups>> find_clusterings() const {
    const SquareMatrix weights = bandwidths(platform_, groups_);
    std::vector<std::vector<Groups>> clusterings;
    for (const double resolution : resolutions) {
      std::vector<Groups> clusters = members_of(louvain(weights, resolution));
      if (std::ranges::find(clusterings, clusters) == clusterings.end()) clusterings.push_back(std::move(clusters));
    }
    for (std::vector<Groups>& clusters : clusterings)
      for (Groups& cluster : clusters) cluster = path_through(cluster);
    return clusterings;
  }

  double hop_cost(std::size_t a, std::size_t b) const {
    const auto [from, to] = ends(groups_[a], groups_[b]);
    return (transfer_time(platform_, from, to, message_.activation) +
            transfer_time(platform_, to, from, message_.gradient))
        .value;
  }

  double speed(std::size_t group) const {
    const GpuType& gpu = platform_.gpus[groups_[group].gpu.index()];
    return gpu.sustained_flops * gpu.peak(dtype_).value;
  }

  /// Members in the order of the shortest open path through them.
  Groups path_through(const Groups& members) const {
    SquareMatrix costs(members.size());
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = 0; j < members.size(); ++j) costs.at(i, j) = costs_.at(members[i], members[j]);
    Groups path;
    for (const std::size_t i : shortest_open_path(costs)) path.push_back(members[i]);
    return path;
  }

  /// Clusters in the order of the shortest open path; the distance of two is that of their nearest groups. Each cluster
  /// is turned so that it begins near where the last one ended.
  std::vector<Groups> ordered(const std::vector<Groups>& clusters) const {
    SquareMatrix costs(clusters.size());
    for (std::size_t i = 0; i < clusters.size(); ++i)
      for (std::size_t j = 0; j < clusters.size(); ++j) {
        double nearest = std::numeric_limits<double>::infinity();
        for (const std::size_t a : clusters[i])
          for (const std::size_t b : clusters[j]) nearest = std::min(nearest, costs_.at(a, b));
        costs.at(i, j) = nearest;
      }
    std::vector<Groups> path;
    for (const std::size_t c : shortest_open_path(costs)) {
      path.push_back(clusters[c]);
      if (path.size() < 2) continue;
      Groups& latest = path.back();
      const std::size_t before = path[path.size() - 2].back();
      if (costs_.at(before, latest.back()) < costs_.at(before, latest.front())) std::ranges::reverse(latest);
    }
    return path;
  }

  void add_paths(const std::vector<Groups>& clusters) {
    const std::vector<Groups> path = ordered(clusters);
    Groups whole;
    for (const Groups& cluster : path) whole.insert(whole.end(), cluster.begin(), cluster.end());
    add(devices_of(whole));
    add_reversed(devices_of(whole));
    if (path.size() > 1) add_closed(path);
  }

  /// Begins and ends in the first cluster, so that both ends are near each other.
  void add_closed(const std::vector<Groups>& path) {
    const std::vector<DeviceId> first = devices_of(path.front());
    const auto half = first.begin() + static_cast<std::ptrdiff_t>((first.size() + 1) / 2);
    std::vector<DeviceId> closed(first.begin(), half);
    for (std::size_t c = 1; c < path.size(); ++c) {
      const std::vector<DeviceId> devices = devices_of(path[c]);
      closed.insert(closed.end(), devices.begin(), devices.end());
    }
    closed.insert(closed.end(), half, first.end());
    add(std::move(closed));
  }

  void add_cluster(const Groups& cluster) {
    add(devices_of(cluster));
    add_reversed(devices_of(cluster));
    add(fastest_first(cluster));
  }

  std::vector<DeviceId> fastest_first(Groups groups) const {
    std::ranges::stable_sort(groups, [&](std::size_t a, std::size_t b) { return speed(a) > speed(b); });
    return devices_of(groups);
  }

  std::vector<DeviceId> devices_of(const Groups& groups) const {
    std::vector<DeviceId> devices;
    for (const std::size_t g : groups)
      devices.insert(devices.end(), groups_[g].devices.begin(), groups_[g].devices.end());
    return devices;
  }

  void add_reversed(std::vector<DeviceId> devices) {
    std::ranges::reverse(devices);
    add(std::move(devices));
  }

  void add(std::vector<DeviceId> devices) {
    if (seen_.insert(devices).second) orders_.push_back(std::move(devices));
  }

  const Platform& platform_;
  const std::vector<DeviceGroup>& groups_;
  DType dtype_;
  TypicalMessage message_;
  SquareMatrix costs_;
  std::set<std::vector<DeviceId>> seen_;
  std::vector<std::vector<DeviceId>> orders_;
};

}  // namespace

std::vector<DeviceGroup> device_groups(const Platform& platform) {
  const bool by_device = platform.matrix && platform.matrix->level == LinkMatrix::Level::device;
  std::vector<DeviceGroup> groups;
  for (const Host& host : platform.hosts) {
    const std::size_t first = groups.size();
    for (const DeviceId id : host.devices) {
      const GpuId gpu = platform.device(id).gpu;
      const auto same = std::find_if(groups.begin() + static_cast<std::ptrdiff_t>(first), groups.end(),
                                     [&](const DeviceGroup& group) { return !by_device && group.gpu == gpu; });
      if (same == groups.end())
        groups.push_back({gpu, {id}});
      else
        same->devices.push_back(id);
    }
  }
  return groups;
}

std::vector<DeviceGroup> promising_groups(const Platform& platform, DType dtype) {
  std::vector<DeviceGroup> groups = device_groups(platform);
  if (groups.size() <= max_groups) return groups;
  const auto site_of = [&](const DeviceGroup& group) {
    return platform.hosts[platform.device(group.devices.front()).host.index()].site.index();
  };
  std::vector<double> speed(platform.sites.size()), worth(platform.sites.size());
  for (const DeviceGroup& group : groups) {
    const GpuType& gpu = platform.gpus[group.gpu.index()];
    speed[site_of(group)] += gpu.sustained_flops * gpu.peak(dtype).value * static_cast<double>(group.devices.size());
  }
  for (std::size_t s = 0; s < worth.size(); ++s) {
    const auto& uplink = platform.sites[s].uplink;
    worth[s] = speed[s];
    if (uplink) worth[s] *= std::min(platform.link(uplink->out).bandwidth, platform.link(uplink->in).bandwidth).value;
  }
  std::vector<std::size_t> best(groups.size());
  std::iota(best.begin(), best.end(), std::size_t{0});
  std::ranges::stable_sort(
      best, [&](std::size_t a, std::size_t b) { return worth[site_of(groups[a])] > worth[site_of(groups[b])]; });
  best.resize(max_groups);
  std::ranges::sort(best);
  std::vector<DeviceGroup> kept;
  for (const std::size_t g : best) kept.push_back(std::move(groups[g]));
  return kept;
}

std::vector<std::vector<DeviceId>> starting_orders(const Platform& platform, const std::vector<DeviceGroup>& groups,
                                                   DType dtype, const TypicalMessage& message) {
  return OrderFinder(platform, groups, dtype, message).run();
}

}  // namespace fusion
