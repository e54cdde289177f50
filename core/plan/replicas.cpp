#include "core/plan/replicas.h"

#include <algorithm>
#include <tuple>

#include "core/base/error.h"

namespace fusion {
namespace {

std::vector<DeviceId> by_place(const Platform& platform) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < platform.devices.size(); ++d) devices.emplace_back(d);
  std::ranges::sort(devices, {}, [&](DeviceId id) {
    const HostId host = platform.device(id).host;
    return std::tuple(platform.hosts[host.index()].site, host, id);
  });
  return devices;
}

}  // namespace

std::vector<Division> divisions(const Platform& platform, int replicas) {
  const std::vector<DeviceId> devices = by_place(platform);
  const auto n = static_cast<std::size_t>(replicas);
  if (n > devices.size())
    throw InputError(
        platform.name, "replicas",
        std::to_string(n) + " asked for, with " + std::to_string(devices.size()) + " devices; each needs one at least");
  Division side_by_side(n), in_turn(n);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    side_by_side[i * n / devices.size()].push_back(devices[i]);
    in_turn[i % n].push_back(devices[i]);
  }
  for (Division* division : {&side_by_side, &in_turn})
    for (std::vector<DeviceId>& each : *division) std::ranges::sort(each);
  if (side_by_side == in_turn) return {side_by_side};
  return {side_by_side, in_turn};
}

}  // namespace fusion
