// Cuts a line for a given order of devices, and improves the order: what op-fence does between its first idea of an
// order and the judging of finished placements. All on estimates (op_fence_line.h), a few microseconds each.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/plan/op_fence_fleet.h"
#include "core/plan/op_fence_line.h"
#include "core/plan/partition.h"
#include "core/plan/policies.h"

namespace fusion {

/// A pipeline under consideration: device k has units [cuts[k], cuts[k + 1]) of the line.
struct Pipeline {
  std::vector<DeviceId> devices;
  std::vector<std::size_t> cuts;
  double bottleneck_s = 0;
  double estimate_s = 0;  ///< of an iteration, with the exchange of tied parameters
};

/// A parameter that several units use: its copies exchange gradients once per iteration.
struct TiedParameter {
  Bytes size{};
  std::vector<std::size_t> units;  ///< ascending
};
std::vector<TiedParameter> tied_parameters(const PolicyInput&, std::span<const Unit>);

/// The median of what crosses the cuts of a line.
TypicalMessage typical_message(const Line&);

/// How hard to look for the cuts of one order.
struct CutEffort {
  double step = 0.8;  ///< see IterationOptions
  std::size_t max_bounds = 12;
  double first_bound_s = std::numeric_limits<double>::infinity();
  bool may_stop_early = false;  ///< leave out devices at the end too; counts the most micro-batches in flight for all
};

class Planner {
 public:
  /// `memory_scale` above 1 pretends to more memory than there is: for pipelines whose real need the line
  /// overestimates.
  Planner(const PolicyInput&, const Line&, std::vector<TiedParameter>, double memory_scale = 1);

  /// The best cuts for a run of neighbours in `order`, which ends at its last device. Empty where nothing fits.
  std::optional<Pipeline> cut(std::span<const DeviceId> order, const CutEffort&) const;

  /// Local search on the order: drops, swaps, moves and replaces devices, inserts idle ones. `work` bounds the effort,
  /// in steps of the dynamic programme; what is used of it is taken off.
  Pipeline improve(Pipeline, const std::vector<DeviceGroup>&, const TypicalMessage&, std::size_t& work) const;

 private:
  std::vector<Seat> seats(std::span<const DeviceId>, bool may_stop_early) const;
  std::vector<Hop> hops(std::span<const DeviceId>) const;
  double estimate_s(const Partition&) const;
  double exchange_s(const Pipeline&) const;

  const PolicyInput& input_;
  const Line& line_;
  std::vector<TiedParameter> tied_;
  double memory_scale_;
};

}  // namespace fusion
