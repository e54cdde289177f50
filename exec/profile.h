// How long the ops of a network take on this machine.
#pragma once

#include <random>
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

/// Values from -1 to 1; of integers 0: a token or class of any model.
HostTensor noise(const Tensor&, std::mt19937_64&);
Seconds median(std::vector<Seconds>);  ///< of an even number the upper of the two in the middle

/// What the roofline of the estimator needs to know of a machine.
struct MachineFit {
  FlopsPerSecond flops{};
  BytesPerSecond bandwidth{};
  Seconds overhead{};
  std::vector<KindSpeed> kinds;  ///< by kind
};
/// Each op and pass says time = overhead + roofline / speed of its kind: overhead and speeds solve that for the least
/// sum of squares of relative errors, none below 0 (a kind with no work to speak of keeps 1). Bytes/s fit the profile
/// in sum; FLOP/s are tried in half octaves.
MachineFit fit_of(const Graph&, const Costs&, const std::vector<OpProfile>&);

/// Memory traffic per second of an Adam step over parameters of that many bytes, each read and written once with its
/// gradient and state, as stage_costs() counts it. Median of `repeats`.
BytesPerSecond profile_update(const Graph&, int repeats);

/// A [[gpu]] entry for a platform file.
std::string gpu_entry(const MachineFit&, BytesPerSecond update, const std::string& name, Bytes memory,
                      const std::string& source);

}  // namespace fusion::exec
