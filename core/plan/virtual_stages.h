// Shares of devices, cut again for orders that give each device several stages.
#pragma once

#include <vector>

#include "core/plan/schedule.h"
#include "core/program/order.h"

namespace fusion {

/// A policy gives each device one share of the network, in pipeline order, whatever the order of the run. Where that
/// has c chunks per device, the network is cut anew into p c stages, in the same sequence of ops: each stage of a
/// device has about a c-th of the work of its share, and a cut moves to where so much less crosses that the network
/// gains more time than the devices lose. Ops without inputs go with their first reader. With one chunk the shares are
/// returned as they are.
///
/// Throws Infeasible where the network has fewer ops than stages, InputError where a file's order is for another number
/// of devices.
std::vector<Stage> with_chunks(const Order&, std::vector<Stage> shares, const Training&, const Graph&, const Costs&,
                               const Platform&);

}  // namespace fusion
