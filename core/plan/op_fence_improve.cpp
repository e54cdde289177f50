// Planner::improve: local search on the order of devices. Each neighbour is cut anew by the dynamic programme near the
// bottleneck in hand, so a move is judged with the cuts that suit it. First improvement, sweep after sweep over all
// kinds of moves, until none helps or the work is used up.
#include <algorithm>
#include <limits>

#include "core/plan/op_fence_planner.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

using Order = std::vector<DeviceId>;

constexpr double least_improvement = 1e-9;  ///< relative; less is rounding
constexpr std::size_t max_sweeps = 8;
constexpr std::size_t max_idle_of_type = 12;  ///< devices of one GPU type that a sweep tries to bring in

class OrderSearch {
 public:
  OrderSearch(const Platform& platform, const Planner& planner, const std::vector<DeviceGroup>& groups,
              const TypicalMessage& message, std::size_t num_units, Pipeline start, std::size_t& work)
      : platform_(platform),
        planner_(planner),
        groups_(groups),
        message_(message),
        num_units_(num_units),
        group_of_(platform.devices.size()),
        best_(std::move(start)),
        work_(work) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const DeviceId id : groups[g].devices) group_of_[id.index()] = g;
  }

  Pipeline run() {
    for (std::size_t sweep = 0; sweep < max_sweeps && work_ > 0; ++sweep)
      if (!(drop() | swap() | move() | replace() | insert())) break;
    return std::move(best_);
  }

 private:
  std::size_t size() const { return best_.devices.size(); }

  bool try_order(const Order& order) {
    constexpr std::size_t bounds = 4;
    const std::size_t cost = order.size() * num_units_ * bounds;
    if (order.empty() || cost > work_) return work_ = order.empty() ? work_ : 0, false;
    work_ -= cost;
    const auto found =
        planner_.cut(order, {.step = 0.9, .max_bounds = bounds, .first_bound_s = best_.bottleneck_s * 1.15});
    if (!found || found->estimate_s >= best_.estimate_s * (1 - least_improvement)) return false;
    best_ = *found;
    return true;
  }

  bool drop() {
    bool improved = false;
    for (std::size_t k = 0; k < size() && size() > 1; ++k) {
      Order order = best_.devices;
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(k));
      improved |= try_order(order);
    }
    return improved;
  }

  bool interchangeable(DeviceId a, DeviceId b) const { return group_of_[a.index()] == group_of_[b.index()]; }

  bool swap() {
    bool improved = false;
    for (std::size_t i = 0; i < size(); ++i)
      for (std::size_t j = i + 1; j < size(); ++j) {
        Order order = best_.devices;
        if (interchangeable(order[i], order[j])) continue;
        std::swap(order[i], order[j]);
        improved |= try_order(order);
      }
    return improved;
  }

  /// One device to another place.
  bool move() {
    bool improved = false;
    for (std::size_t from = 0; from < size(); ++from)
      for (std::size_t to = 0; to < size(); ++to) {
        if (to == from || to + 1 == from) continue;  // neighbours change places in swap()
        Order order = best_.devices;
        const DeviceId device = order[from];
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), device);
        improved |= try_order(order);
        if (from >= size()) break;
      }
    return improved;
  }

  double distance_s(DeviceId device) const {
    double nearest = std::numeric_limits<double>::infinity();
    for (const DeviceId other : best_.devices)
      nearest = std::min(nearest, (transfer_time(platform_, other, device, message_.activation) +
                                   transfer_time(platform_, device, other, message_.gradient))
                                      .value);
    return nearest;
  }

  /// An idle device of each group, of each GPU type those that are nearest to the pipeline.
  std::vector<DeviceId> idle() const {
    std::vector<bool> used(platform_.devices.size());
    for (const DeviceId id : best_.devices) used[id.index()] = true;
    std::vector<std::pair<double, DeviceId>> near;
    for (const DeviceGroup& group : groups_) {
      const auto free = std::ranges::find_if(group.devices, [&](DeviceId id) { return !used[id.index()]; });
      if (free != group.devices.end()) near.emplace_back(distance_s(*free), *free);
    }
    std::ranges::stable_sort(near);
    std::vector<std::size_t> of_type(platform_.gpus.size());
    std::vector<DeviceId> devices;
    for (const auto& [distance, id] : near)
      if (of_type[platform_.device(id).gpu.index()]++ < max_idle_of_type) devices.push_back(id);
    return devices;
  }

  bool replace() {
    bool improved = false;
    for (const DeviceId device : idle())
      for (std::size_t k = 0; k < size(); ++k) {
        Order order = best_.devices;
        if (std::ranges::find(order, device) != order.end()) break;
        order[k] = device;
        improved |= try_order(order);
      }
    return improved;
  }

  bool insert() {
    bool improved = false;
    for (const DeviceId device : idle())
      for (std::size_t k = 0; k <= size() && size() < num_units_; ++k) {
        Order order = best_.devices;
        if (std::ranges::find(order, device) != order.end()) break;
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(k), device);
        improved |= try_order(order);
      }
    return improved;
  }

  const Platform& platform_;
  const Planner& planner_;
  const std::vector<DeviceGroup>& groups_;
  const TypicalMessage& message_;
  std::size_t num_units_;
  std::vector<std::size_t> group_of_;  ///< by device
  Pipeline best_;
  std::size_t& work_;
};

}  // namespace

Pipeline Planner::improve(Pipeline start, const std::vector<DeviceGroup>& groups, const TypicalMessage& message,
                          std::size_t& work) const {
  return OrderSearch(input_.platform, *this, groups, message, line_.num_units(), std::move(start), work).run();
}

}  // namespace fusion
