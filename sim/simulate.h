// Replays a Program on SimGrid. The only header of sim/ that others need; SimGrid itself stays behind simulate.cpp.
#pragma once

#include <span>
#include <string_view>

#include "core/report/report.h"

namespace fusion::sim {

/// How messages share the network.
struct NetworkProfile {
  std::string_view name;
  std::string_view help;
  std::string_view factors;  ///< as every report states them
};
std::span<const NetworkProfile> network_profiles();

struct SimulateOptions {
  std::string_view network = "ideal";
  bool timeline = false;
};

/// Deterministic. SimGrid allows one engine per process: call it once, or in a child process (`simulate_isolated`).
/// Throws RuntimeFault when the run stops with work left: each waiting task, its peer and bytes.
Report simulate(const Program&, const Platform&, const SimulateOptions&);

/// The same in a forked child, so that one process can replay many programs. The timeline is not carried over.
Report simulate_isolated(const Program&, const Platform&, const SimulateOptions&);

}  // namespace fusion::sim
