// What a stage costs on its device: the numbers that prediction, memory check and lowering share.
#pragma once

#include <string>
#include <vector>

#include "core/plan/schedule.h"
#include "core/program/order.h"

namespace fusion {

struct StageCosts {
  Seconds forward{}, input_gradient{}, weight_gradient{};  ///< per micro-batch, without codecs
  Seconds second_forward{};                                ///< at the start of a backward with recompute
  Seconds forward_codec{}, backward_codec{};               ///< decode what arrives, encode what leaves, per pass
  Seconds update{};                                        ///< optimizer step, per iteration
  Bytes kept{};              ///< activations held per micro-batch in flight: each tensor once, however many ops keep it
  Bytes recompute_extra{};   ///< what recompute brings back, beside `kept`, live only while one backward runs
  Bytes held_for_weights{};  ///< per micro-batch between the two halves of a split backward (`pass_memory`), else 0
  Bytes parameters{};  ///< parameters, gradients, optimizer state; a tied parameter counts on every device that has it
  Bytes buffers{};     ///< two dense messages per cut edge and direction

  Seconds forward_pass() const { return forward + forward_codec; }
  Seconds backward_pass() const { return second_forward + input_gradient + weight_gradient + backward_codec; }
  Seconds pass() const { return forward_pass() + backward_pass(); }
};

std::vector<StageCosts> stage_costs(const Schedule&, const Graph&, const Costs&, const Platform&);

/// The part of a stage's costs that its ops decide on a GPU type, whatever its neighbours: all but codecs and buffers,
/// with recompute all but the received tensors in `kept`, and what a pipeline order splits or shares.
/// O(ops of the stage).
StageCosts compute_costs(const Stage&, const Training&, const Graph&, const Costs&, const GpuType&);

/// The part that the cut edges decide, added to `compute_costs` of each stage. O(edges), so that a search which moves
/// one boundary pays for the ops of two stages and for this.
void add_edge_costs(std::vector<StageCosts>&, const Schedule&, const Graph&, const Platform&);

/// Memory that a device with one stage needs: parameters + buffers + kept x in-flight micro-batches of the order
/// (+ recompute). The workspace of kernels is not in it.
Bytes memory_needed(const StageCosts&, int in_flight);

/// What a pass takes when it starts and gives back when it ends. Where the backward pass is split, its first half gives
/// back all but `held_for_weights`: what the ops with parameters kept, and the gradients of their outputs, which the
/// second half multiplies (Qi et al. 2024, arXiv 2401.10241, table 1, count the same). A tensor counts once per stage.
struct PassMemory {
  Bytes allocates{}, frees{};
};
PassMemory pass_memory(const StageCosts&, Phase);

/// Memory that each device needs, in the order of their first stages: what its stages need for good, and the peak of
/// what its passes hold, in the sequence of the pipeline order. A send waits for nobody and holds nothing.
std::vector<Bytes> memory_by_device(const Schedule&, const std::vector<StageCosts>&);

/// Throws Infeasible naming the stage that exceeds its device most, by how much, and what would help.
void require_memory(const Schedule&, const Graph&, const std::vector<StageCosts>&, const Platform&);

/// "blocks 3-7", "embedding-block 2", "head", or the first and last op's name where there are no labels.
std::string stage_name(const Graph&, const Stage&);

/// The planner's objective, our reading of FusionLLM: with R_p the forward + backward time of stage p, C the forward
/// and backward transfer times of the cut edges,
///
///   T = fill + (m - 1) bottleneck,  fill = longest path of R and C through the stages and back,
///   bottleneck = the busiest resource per micro-batch: a device, a channel between two devices, or a shared link.
///
/// A pipeline order lets a stage have k micro-batches in flight (order.h), so micro-batch i + k starts only when i has
/// come back after the round trip L below the stage. Over slow links that, and no resource, sets the pace:
///
///   start(i) = max( start(i - 1) + bottleneck, start(i - k) + L ),  T = fill + max over the stages of start(m - 1)
///
/// The same holds for a round trip that turns back at a stage e: k_s - k_e + 1 micro-batches share it. Where an order
/// keeps the phases apart (gpipe), the bottleneck is that of the forwards plus that of the backwards.
///
/// Plus what the exchange of gradients (tied parameters, replicas: exchange.h) takes beyond the last backward, and the
/// optimizer step. With replicas, resources carry what all of them put there. Exact when forward and backward move as
/// one unit; the simulated makespan is a separate figure. Which resources there are, and that latency
/// delays but occupies nothing, is in traffic.h.
struct Prediction {
  Seconds iteration{}, fill{}, exchange{};
  Seconds bottleneck{};  ///< of the busiest resource, per micro-batch
  std::string bottleneck_name;
  Seconds pace{};  ///< from one micro-batch to the next: the bottleneck's, or that of a round trip L / k
  std::string pace_name;
};
/// start(m - 1) of a stage: from the first micro-batch's start there to the last one's. The recurrence above, solved.
Seconds following(int micro_batches, int in_flight, Seconds bottleneck, Seconds round_trip);

/// O(stages + edges + parameters + links of the platform): no pass over the ops.
/// For a stage per device and a backward pass in one piece; plan.h has `predicted_iteration` for every order.
Prediction predict(const Schedule&, const Graph&, const std::vector<StageCosts>&, const Platform&);

}  // namespace fusion
