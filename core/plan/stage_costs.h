// What a stage costs on its device: the numbers that prediction, memory check and lowering share.
#pragma once

#include <string>
#include <vector>

#include "core/plan/schedule.h"

namespace fusion {

struct StageCosts {
  Seconds forward{}, input_gradient{}, weight_gradient{};  ///< per micro-batch, without codecs
  Seconds forward_codec{}, backward_codec{};               ///< decode what arrives, encode what leaves, per pass
  Seconds update{};                                        ///< optimizer step, per iteration
  Bytes kept{};                                            ///< activations held per micro-batch in flight
  Bytes recompute_extra{};                                 ///< live only while a backward with recompute runs
  Bytes parameters{};                                      ///< parameters, gradients, optimizer state
  Bytes buffers{};                                         ///< two messages per cut edge and direction
};

std::vector<StageCosts> stage_costs(const Schedule&, const Graph&, const Costs&, const Platform&);

/// Memory that stage `s` needs: parameters + buffers + kept x in-flight micro-batches of the order (+ recompute).
Bytes memory_needed(const StageCosts&, int in_flight);

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
/// Plus the optimizer step. Exact when forward and backward move as one unit; the simulated makespan is a separate
/// figure.
struct Prediction {
  Seconds iteration{}, fill{}, bottleneck{};
  std::string bottleneck_name;
};
Prediction predict(const Schedule&, const Graph&, const std::vector<StageCosts>&, const Platform&);

}  // namespace fusion
