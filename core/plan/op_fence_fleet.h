// The devices as op-fence sees them: groups of interchangeable ones, clusters of near ones, and orders to start from.
#pragma once

#include <vector>

#include "core/platform/platform.h"

namespace fusion {

/// Devices that can stand for each other: one GPU type on one host.
struct DeviceGroup {
  GpuId gpu;
  std::vector<DeviceId> devices;
};
std::vector<DeviceGroup> device_groups(const Platform&);

/// Those of the sites with the most computing power behind the widest uplinks, 1,024 groups at most: what follows takes
/// the square of their number in memory and more in time. In the order of the platform.
std::vector<DeviceGroup> promising_groups(const Platform&, DType);

/// What typically crosses a boundary, to compare links by.
struct TypicalMessage {
  Bytes activation{}, gradient{};
};

/// Orders of devices that a pipeline may follow, each a place to start the search from; most use only some of the
/// devices. Nearest to the idea of OP-Fence come first: clusters found by Louvain at several resolutions on the
/// bandwidths as measured, along the shortest open path through them and through the groups inside each. Then each
/// cluster by itself, clusters that the path ends in where it began (tied parameters like that), and the fastest
/// devices first.
std::vector<std::vector<DeviceId>> starting_orders(const Platform&, const std::vector<DeviceGroup>&, DType,
                                                   const TypicalMessage&);

}  // namespace fusion
