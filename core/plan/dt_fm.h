// The cost model of DT-FM (Yuan et al. 2022, arXiv 2206.01288): data-parallel groups of devices, one per pipeline
// stage, judged by communication alone. Compute and memory are not in it.
//
//   DATAP(C_j)   = max over d in C_j of the sum over d' of 2 (alpha + c_DP / (D_DP beta))     sharded parameter server
//   edge(C, C')  = least over the perfect matchings of the longest 2 (alpha + c_PP / beta)    bottleneck assignment
//   PIPELINEP    = shortest open path over the groups by these edges                           open-loop TSP
//   score        = max over j of DATAP(C_j) + PIPELINEP
//
// "2 (…)" is there and back: on links that differ by direction, the sum of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/schedule.h"
#include "core/plan/square_matrix.h"
#include "core/platform/platform.h"

namespace fusion {

/// What travels per iteration.
struct DtFmVolumes {
  Bytes data_parallel{};  ///< c_DP: the parameters of one stage
  Bytes pipeline{};       ///< c_PP: what crosses one boundary of one pipeline
};

/// Prices of every pair of devices, there and back, in seconds; by the position of the devices in `devices`.
struct DtFmPrices {
  std::vector<DeviceId> devices;
  std::size_t num_groups = 0;  ///< D_PP; divides the number of devices
  SquareMatrix exchange_s;     ///< one shard of c_DP / D_DP
  SquareMatrix boundary_s;     ///< c_PP

  std::size_t group_size() const { return devices.size() / num_groups; }
};
/// Precondition: `num_groups` divides the number of devices.
DtFmPrices dt_fm_prices(const Platform&, std::vector<DeviceId>, std::size_t num_groups, const DtFmVolumes&);

/// The group of each device, numbered from 0; all groups equally large.
using Grouping = std::vector<std::size_t>;

struct DtFmScore {
  Seconds data_parallel{};        ///< of the slowest group
  Seconds pipeline{};             ///< of the open path
  std::vector<std::size_t> path;  ///< the groups in pipeline order
  Seconds total() const { return data_parallel + pipeline; }
};
/// Exact up to 12 groups; beyond, the path is a local optimum (device_order.h). O(devices^2) and the matchings.
DtFmScore dt_fm_score(const DtFmPrices&, const Grouping&);

/// `pipelines[r][j]`: device of stage j in pipeline r, along the path and the matchings of the score.
std::vector<std::vector<DeviceId>> dt_fm_pipelines(const DtFmPrices&, const Grouping&, const DtFmScore&);

/// Least over the perfect matchings of a square matrix of its largest entry, and the column of each row.
struct BottleneckMatching {
  double largest = 0;
  std::vector<std::size_t> column;
};
BottleneckMatching bottleneck_matching(const SquareMatrix&);

/// The outcome of a search.
struct DtFmSearch {
  Grouping grouping;
  DtFmScore score;
  std::size_t num_evaluations = 0;  ///< times that `dt_fm_score` was asked
};

/// DT-FM's scheduler: a population of random groupings; each trial crosses two of them in five devices and improves the
/// child by the circular Kernighan-Lin search of Kang and Moon (GECCO 2000): devices that are near a member of their
/// own group move on to the group that is farthest from them, round in a circle. The child takes the place of the worse
/// parent where it is no worse than both.
struct GeneticOptions {
  std::size_t population = 100, trials = 4900;
  std::uint64_t seed = 1;
};
DtFmSearch dt_fm_genetic(const DtFmPrices&, const GeneticOptions& = {});

/// The policy `dt-fm`, for one pipeline: devices along the shortest open path, as many units on each (policies.h).
std::vector<Stage> dt_fm(const struct PolicyInput&);

}  // namespace fusion
