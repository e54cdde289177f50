// What a training run tells while it runs: a line per step for people, and one of JSON for programs.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "core/program/program.h"
#include "exec/execute.h"

namespace fusion::exec {

/// What turns a step into figures.
struct StepFigures {
  RunInfo info;
  std::vector<std::string> devices;    ///< names, by rank
  Flops model_flops{};                 ///< of one step: matrix products, forward and backward
  std::optional<FlopsPerSecond> peak;  ///< of all ranks together, where the user gave it
  std::int64_t steps = 0;
};
StepFigures figures_of(const Program&, const Graph&, const Platform&, std::int64_t steps,
                       std::optional<FlopsPerSecond> peak_of_a_rank);

/// Mean share of the step in which a rank neither computes nor codes.
double bubble_of(const StepSummary&);
/// Model FLOP utilisation (Chowdhery et al. 2022): model FLOP/s over the peak. Precondition: a peak.
double utilisation_of(const StepSummary&, const StepFigures&);

/// "step 12/100  loss 2.35  41.2 samples/s  5273 tokens/s  bubble 43 %  slowest link a0 > b0 81 %  MFU 12 %"
std::string line_of(const StepSummary&, const StepFigures&);
/// One line of JSON with the same figures and seconds by rank.
std::string json_of(const StepSummary&, const StepFigures&);

}  // namespace fusion::exec
