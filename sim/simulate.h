// Replays a Program on SimGrid. The only header of sim/ that others need; SimGrid itself stays behind simulate.cpp.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/report.h"

namespace fusion::sim {

/// How messages share the network.
struct NetworkProfile {
  std::string_view name;
  std::string_view help;
  std::string_view factors;  ///< as every report states them
};
std::span<const NetworkProfile> network_profiles();
/// Throws InputError with the nearest names.
const NetworkProfile& find_network_profile(std::string_view name);
/// "ideal: SimGrid CM02, …", as reports state it.
std::string describe(const NetworkProfile&);

struct SimulateOptions {
  std::string network = "ideal";
  bool timeline = false;
};

/// Deterministic. SimGrid allows one engine per process: call it once, or in a child process (`simulate_isolated`);
/// a second call throws std::logic_error. The program is valid (core/program/lower.h), and no device sends to itself.
/// Throws RuntimeFault when the run stops with work left: each waiting task, its peer and bytes; InputError for an
/// unknown network profile.
Report simulate(const Program&, const Platform&, const SimulateOptions&);

/// The same in a forked child, so that one process can replay many programs. The timeline is not carried over. A child
/// that crashes is a RuntimeFault that names the signal.
Report simulate_isolated(const Program&, const Platform&, const SimulateOptions&);

/// One simulation among many. The program and the platform outlive it.
struct Job {
  const Program* program;
  const Platform* platform;
  SimulateOptions options;
};

/// What became of it: a report, or the text of its RuntimeFault.
struct Outcome {
  std::optional<Report> report;
  std::string fault;
};

/// `simulate_isolated` of many programs, `num_processes` of them at a time; the outcomes are in the order of the jobs
/// and do not depend on `num_processes`. `ended` is called after each with the number of those that have ended.
std::vector<Outcome> simulate_all(std::span<const Job>, int num_processes,
                                  const std::function<void(std::size_t)>& ended = {});

/// Makes SimGrid's hosts, links and routes for a program, runs nothing: what `fusion-bench` times. Counts as the one
/// call of this process.
void build_only(const Program&, const Platform&, const SimulateOptions&);

}  // namespace fusion::sim
