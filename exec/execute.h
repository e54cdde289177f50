// Executes a Program with real numbers: one rank runs one device's steps. Remote automatic differentiation: a rank runs
// the forward of its part, sends cut activations, receives output gradients, runs backward on its part, routes input
// gradients upstream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/program/program.h"
#include "core/report/report.h"
#include "exec/backend.h"
#include "exec/data.h"
#include "exec/optimizer.h"
#include "exec/transport.h"

namespace fusion::exec {

struct TrainOptions {
  std::int64_t steps = 1;
  std::uint64_t seed = 1;
  OptimizerSettings optimizer;
  std::string backend = "torch";
  std::filesystem::path checkpoints;  ///< empty: none
  std::int64_t checkpoint_every = 0;  ///< steps; 0: at the end only
  bool resume = false;
  bool timeline = false;  ///< of the last step
};

/// What a rank saw of one step.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0;  ///< mean over the micro-batches, on the rank that has the loss
  Seconds duration{}, busy{};
};

/// What a rank ends with.
struct RankResult {
  std::vector<StepResult> steps;
  Measured measured;  ///< of the last step: this rank's device and outgoing channels
  std::map<std::string, std::vector<float>> parameters,
      gradients;  ///< by name, after the last step; for tests and checkpoints
};

/// Runs this rank's device, `program.devices[transport.rank()]`. Every rank calls it with the same program, graph and
/// options. Throws InputError when the ranks do not agree (handshake), PeerLost when one is gone.
RankResult execute(const Program&, const Graph&, Transport&, const DataSet&, const TrainOptions&,
                   const std::function<void(const StepResult&)>& on_step = {});

}  // namespace fusion::exec
