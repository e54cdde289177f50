#include "core/plan/op_fence_enumerate.h"

namespace fusion {
namespace {

/// False as soon as there are too many.
bool extend(const std::vector<DeviceGroup>& groups, std::size_t max_orders, std::vector<std::size_t>& used,
            std::vector<DeviceId>& order, std::vector<std::vector<DeviceId>>& orders) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (used[g] == groups[g].devices.size()) continue;
    if (orders.size() == max_orders) return false;
    order.push_back(groups[g].devices[used[g]++]);
    orders.push_back(order);
    const bool complete = extend(groups, max_orders, used, order, orders);
    order.pop_back();
    --used[g];
    if (!complete) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<DeviceId>> enumerated_orders(const std::vector<DeviceGroup>& groups, std::size_t max_orders) {
  std::vector<std::vector<DeviceId>> orders;
  std::vector<std::size_t> used(groups.size());
  std::vector<DeviceId> order;
  if (!extend(groups, max_orders, used, order, orders)) return {};
  return orders;
}

}  // namespace fusion
