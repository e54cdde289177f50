// The placements that everything is compared with. None of them looks at memory, links or the shape of the network.
#pragma once

#include <vector>

#include "core/plan/policies.h"

namespace fusion {

/// As many units on each device as on any other, give or take one, in file order; the first devices get the larger
/// share. With fewer units than devices the last devices stay idle.
std::vector<Stage> equal_number(const PolicyInput&);

/// Bounds that give each of `num_parts` parts as many of `num_units` units, give or take one; the first get the larger
/// share.
std::vector<std::size_t> equal_bounds(std::size_t num_units, std::size_t num_parts);

/// Contiguous parts in file order with FLOPs in proportion to each device's sustained FLOP/s, at least one unit each.
std::vector<Stage> equal_compute(const PolicyInput&);

/// Devices in a random order, the line cut in random places; `Schedule::seed` decides both.
std::vector<Stage> random_placement(const PolicyInput&);

}  // namespace fusion
