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
