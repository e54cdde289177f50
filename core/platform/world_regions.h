// Ten regions of the world with what was measured between them, one way.
//
// Source: DT-FM, arXiv 2206.01288. Symmetric; the diagonal is what was measured inside a region.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace fusion {

constexpr std::size_t num_world_regions = 10;
using RegionMatrix = std::array<std::array<double, num_world_regions>, num_world_regions>;

extern const std::array<std::string_view, num_world_regions> world_regions;
extern const RegionMatrix region_latency_ms, region_bandwidth_gbps;

}  // namespace fusion
