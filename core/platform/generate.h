// Made-up worlds of any size: data-centre clusters and homes in regions whose links were measured.
//
//   cluster   hosts with 2, 4 or 8 GPUs of one type behind an uplink that is the same both ways
//   home      one GPU, one home in eight two, behind an uplink that is slower than the downlink
//
// Everything is drawn: region, size, GPU, bandwidth. Bandwidths lie on eight rungs, evenly spaced by their logarithm,
// so that equal sites are one entry of the file with a count and a world of 100,000 devices is a short file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace fusion {

/// A GPU of the catalogue and how often it is drawn beside the others.
struct GpuShare {
  std::string gpu;
  double weight = 1;
  bool operator==(const GpuShare&) const = default;
};

struct BandwidthRange {
  BytesPerSecond low{}, high{};
  bool operator==(const BandwidthRange&) const = default;
};

struct World {
  std::string name = "world";
  std::int64_t devices = 1'000;      ///< 1 to 1,000,000
  double home_share = 0.5;           ///< of the devices, in [0, 1]
  std::vector<std::string> regions;  ///< of world_regions; none: all
  std::vector<GpuShare> cluster_gpus = {{"A100-40GB", 2}, {"A10", 1}, {"V100-16GB", 2}, {"T4", 1}, {"H100-SXM", 1}};
  std::vector<GpuShare> home_gpus = {{"RTX 4090", 1}, {"RTX 4080", 1},    {"RTX 3090", 1},
                                     {"RTX 3080", 2}, {"RTX 2080 Ti", 2}, {"RTX 3070", 3}};
  BandwidthRange cluster_uplink = {BytesPerSecond(1e9 / 8), BytesPerSecond(100e9 / 8)};
  BandwidthRange home_uplink = {BytesPerSecond(8e6 / 8), BytesPerSecond(1e9 / 8)};
  double asymmetry = 10;        ///< downlink over uplink of a home, as long as that is below the fastest uplink; >= 1
  std::int64_t max_hosts = 16;  ///< of a cluster; 1 to 10,000
  std::uint64_t seed = 1;
};

/// The text of a platform file: the same bytes for the same world. Clusters come first, in no order of regions. Throws
/// InputError with the field as key ("home-share").
std::string generate_platform(const World&);

/// "A100-40GB=2,T4": weights are 1 where none stands. Throws InputError with `key`.
std::vector<GpuShare> parse_gpu_mix(std::string_view key, std::string_view text);
/// "8 Mbps..1 Gbps", or one bandwidth for all. Throws InputError with `key`.
BandwidthRange parse_bandwidth_range(std::string_view key, std::string_view text);

std::string to_string(const std::vector<GpuShare>&);
std::string to_string(const BandwidthRange&);

}  // namespace fusion
