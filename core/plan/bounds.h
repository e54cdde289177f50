// What no placement can beat: a lower bound on the iteration time of a problem with its order and micro-batches, for
// the gap that every plan prints.
//
// Take one path through the OP-DAG, the heaviest. Its ops run one after the other, on some number j of devices; each
// stage is convex, so the path enters each of them once and changes device exactly j - 1 times. For each j:
//
//   fill(j)        the path's ops on the fastest device there is, and j - 1 boundaries: enough devices for j have to be
//                  joined, and where the near ones are too few (joined by pairs up to a price), some boundary costs
//                  more. The dearest boundaries carry the smallest tensors of the path.
//   bottleneck(j)  the path's work over the j fastest devices; all work over all devices; the largest op on the fastest
//                  device; the busiest of those boundaries
//   T >= fill(j) + (m - 1) bottleneck(j)      and no micro-batch sooner than the order's window of micro-batches in
//                                             flight lets a round trip of fill(j) return (stage_costs.h)
//   T >= max(fill(j), m bottleneck(j))        for orders of several stages per device or a split backward, whose plans
//                                             are replayed instead of predicted; nobody waits for weight gradients
//
// The bound is the least over the j whose memory holds the parameters of the path. "Work over devices" is exact for
// devices that differ by op too: with any weights w_d, some device is busy for at least
// sum over ops of min over d of (w_d t_od), over the sum of the w_d.
#pragma once

#include "core/plan/plan.h"
#include "core/plan/policies.h"

namespace fusion {

/// Of predicted_iteration() (plan.h), for every placement; with replicas, of the slowest of them, without its sums of
/// gradients. Time O(ops x GPU types + groups of devices^2); where there are more than 600 groups of interchangeable
/// devices, boundaries are taken to be free.
Seconds lower_bound(const PolicyInput&);

/// Of the problem that a schedule answers.
Seconds lower_bound(const Problem&, const Schedule&);

/// time / bound - 1: how far a plan can be from the optimum at most.
double optimality_gap(Seconds time, Seconds bound);

}  // namespace fusion
