// A network laid out as a line of units with their costs: what the partition algorithms (partition.h) work on.
//
// The line is an approximation where the OP-DAG branches or shares, chosen so that memory is never underestimated by
// it:
//   - a tensor that skips parts crosses every cut on its way, though it travels straight to its reader;
//   - a tensor that several ops keep for backward is counted once where they are near each other, else once each;
//   - a tied parameter counts with each of its users;
//   - time for coding messages is left out.
// A finished placement is always judged by the real costs (op_fence_judge.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/plan/linear_order.h"
#include "core/plan/partition.h"
#include "core/plan/policies.h"

namespace fusion {

/// The unit that each op is in; index by OpId.
std::vector<std::size_t> unit_of_ops(const Graph&, std::span<const Unit>);

/// Costs of `units` in their order, with a speed class per GPU type of the platform (GpuId).
Line lay_out(const PolicyInput&, std::span<const Unit> units);

/// The codec of every edge, where the compression decides it without looking at the links; `none` elsewhere.
Codec codec_everywhere(const Compression&);

/// The least that a message of this tensor may take on the wire under a compression, whatever the placement.
Bytes least_wire_bytes(const Tensor&, const Compression&);

/// How far the compression in use can shrink a cut that asks for it.
CutPricing pricing_of(const Compression&);

/// A line with fewer cuts to choose from. `cuts[i]` is the cut of the fine line that cut i stands for.
struct CoarseLine {
  Line line;
  std::vector<std::size_t> cuts;
};

/// At most `max_units` units of about the same work, ended where the least bytes cross. All of them where there are
/// few.
CoarseLine coarsened(const Line&, std::size_t max_units);

/// Topological orders that are worth trying, the graph's own first: depth first, and one that always takes the unit
/// after which the least bytes are waiting. Orders that repeat an earlier one are left out: a chain has one.
std::vector<std::vector<Unit>> orders_to_try(const Graph&);

}  // namespace fusion
