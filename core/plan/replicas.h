// Which devices make up the pipelines of the replicas.
#pragma once

#include <vector>

#include "core/platform/platform.h"

namespace fusion {

/// The devices of each replica, ascending.
using Division = std::vector<std::vector<DeviceId>>;

/// Two ways to divide a platform among replicas, by sites, hosts and devices in the platform's order, as evenly as can
/// be: side by side, so that a pipeline stays together and the sums of gradients travel far; or dealt out in turn, so
/// that corresponding devices of the replicas are neighbours and the pipelines reach far. One where both are the same.
/// Throws InputError where there are fewer devices than replicas.
std::vector<Division> divisions(const Platform&, int replicas);

}  // namespace fusion
