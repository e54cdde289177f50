// Steps 1 to 3 of the data path, which both mains call: load, decide, lower.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/policies.h"
#include "core/program/program.h"

namespace fusion {

/// The options that decide the problem: all that `load_problem` reads.
struct ProblemOptions {
  std::string model, platform;
  ModelOptions model_options;
  std::size_t devices = 0;  ///< first N devices only; 0: all
  std::string bandwidth;    ///< of every link between hosts, "100 Mbps"; empty: as the platform says
  Training training;
  std::string model_place, platform_place;  ///< "run.toml:3" where a file names them; messages begin with it
};

/// What a run is asked for. The table in run_config.cpp names each key once, for flags and for --config files.
struct RunConfig : ProblemOptions {
  std::string policy = "op-fence", order = "1f1b", compress = "none";
  int micro_batches = 8;  ///< per iteration, of all replicas together
  int replicas = 1;
  std::string collective = "auto";
  std::uint64_t seed = 1;
};

/// A model on a platform with its costs: what does not depend on the policy, so that `rank` loads it once.
struct Problem {
  Graph graph;
  Costs costs;
  Platform platform;
};
/// Throws InputError, which begins with the place of the name of the model or platform where a file gives it.
Problem load_problem(const ProblemOptions&);

/// Ratio and row of RunConfig::compress. Throws InputError.
Compression compression_of(const RunConfig&);

/// Decides: policy, then compression, memory check, prediction. With replicas the policy places each on its share of
/// the devices; of the ways to divide them (replicas.h) the one predicted to be quicker. Throws InputError or
/// Infeasible.
Schedule make_schedule(const RunConfig&, const Problem&);

/// What the schedule's iteration is expected to take: the planner's objective, predict(). That knows one stage per
/// device and a backward pass in one; under other orders the lowered program is replayed without sharing of links.
Seconds predicted_iteration(const Schedule&, const Problem&);

/// A problem and the decision for it.
struct Plan {
  Problem problem;
  Schedule schedule;
};

/// Reads a schedule.json and what it names: model and platform, against which its names are resolved. It is held to all
/// that a fresh decision is held to, and its time is predicted anew, since it may have been edited by hand. Throws
/// InputError, and Infeasible for a stage that does not fit its device.
Plan load_plan(const std::string& schedule_file);

}  // namespace fusion
