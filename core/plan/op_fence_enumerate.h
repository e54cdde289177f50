// Every order in which a few devices can form a pipeline.
#pragma once

#include <cstddef>
#include <vector>

#include "core/plan/op_fence_fleet.h"

namespace fusion {

/// All ordered choices of one or more devices, of interchangeable ones the first that are free. Empty where there are
/// more than `max_orders`.
std::vector<std::vector<DeviceId>> enumerated_orders(const std::vector<DeviceGroup>&, std::size_t max_orders);

}  // namespace fusion
