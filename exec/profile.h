// How long the ops of a network take on this machine.
#pragma once

#include <string>
#include <vector>

#include "core/plan/estimator.h"
#include "exec/backend.h"

namespace fusion::exec {

struct OpProfile {
  OpId op;
  Seconds forward{}, backward{};  ///< median; no backward where no gradient flows
};

struct ProfileOptions {
  BackendOptions backend;
  int repeats = 10;  ///< after two that warm up
  std::uint64_t seed = 1;
};

/// Every op that computes, each by itself, in the graph's order. Ops alike in kind, attributes and shapes are measured
/// once. Throws InputError for an op that the backend does not have.
std::vector<OpProfile> profile_ops(const Graph&, const BackendRow&, const ProfileOptions&);

/// What the roofline of the estimator needs to know of a machine, so that it fits the profile in sum: FLOP/s from the
/// matrix products, bytes/s from the other ops, the overhead from the quickest op.
struct MachineFit {
  FlopsPerSecond flops{};
  BytesPerSecond bandwidth{};
  Seconds overhead{};
};
MachineFit fit_of(const Graph&, const Costs&, const std::vector<OpProfile>&);

/// A [[gpu]] entry for a platform file.
std::string gpu_entry(const MachineFit&, const std::string& name, Bytes memory, const std::string& source);

}  // namespace fusion::exec
