// A network cut into stages where a test wants it, lowered and run by threads.
#pragma once

#include <vector>

#include "core/program/lower.h"
#include "exec/execute_threads.h"

namespace fusion::exec {

struct Pipeline {
  Graph graph;
  Platform platform;
  Schedule schedule;
  Program program;
};

/// How a pipeline is made. `first_ops` are the first ops of the second stage and on.
struct Cut {
  std::vector<std::size_t> first_ops;
  std::string order = "1f1b";
  int micro_batches = 4;
  Codec codec;
  Training training;
  int replicas = 1;
  std::string collective = "auto";
};
Pipeline make_pipeline(const Graph&, const Cut&);

/// Stages of about the same number of ops.
std::vector<std::size_t> even_cuts(const Graph&, std::size_t stages);

/// Whether a tensor is read twice by a stage that is neither its own nor the last that reads it. That stage adds its
/// two gradients before they meet the last one's: a + (b + c), where one process has (a + b) + c.
bool brackets_differ(const Graph&, const std::vector<std::size_t>& first_ops);

/// All ranks with one backend and made-up data.
std::vector<RankResult> train(const Pipeline&, const BackendRow&, const TrainOptions&, const LinkShapes& = {});
/// A backend per rank.
std::vector<RankResult> train(const Pipeline&, const std::vector<const BackendRow*>&, const TrainOptions&,
                              const LinkShapes& = {});

/// Values (or gradients) of all parameters, whichever rank holds them. Fails the test where two copies differ.
std::vector<HostTensor> values_of(const Pipeline&, const std::vector<RankResult>&);
std::vector<HostTensor> gradients_of(const Pipeline&, const std::vector<RankResult>&);

}  // namespace fusion::exec
