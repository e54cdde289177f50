// A search over whole set-ups: which policy, pipeline order, compression and numbers of micro-batches and replicas is
// quickest, by the native engine.
//
// A set-up is a point on a grid of axes, one per option of a run that may be chosen. From the set-up asked for, every
// policy is tried first, so that no single policy does better. Then coordinate descent: axis by axis all values,
// keeping the best, until no axis helps; then again from random set-ups, until all are known or the evaluations are
// used up.
//
// The sequence of evaluations is decided by the seed alone. A time budget only cuts it off: the same number of
// evaluations gives the same result on any machine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace fusion {

/// An option of a run (run_config.h) and the values to choose from. With the key "micro-batches" a value changes the
/// samples per micro-batch too, so that an iteration trains on as many as before.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// Every row of the policy and order tables, every even division of the samples of an iteration into micro-batches, and
/// as many replicas: points where these can't share micro-batches or devices count as too slow, not as evaluations.
/// Compression changes what is trained, so what it may be is the caller's to say.
std::vector<Axis> all_axes(const RunConfig&);

struct AutoOptions {
  std::size_t max_evaluations = 200;
  std::function<bool()> is_time_up = [] { return false; };  ///< asked before each evaluation but the first
};

/// A set-up that was tried.
struct Trial {
  RunConfig config;
  Seconds iteration{};  ///< by the native engine, network `ideal`
  Schedule schedule;
};

struct AutoResult {
  std::vector<Trial> best;                                              ///< the quickest first, at most `num_kept`
  std::size_t num_evaluations = 0, num_infeasible = 0, num_setups = 0;  ///< of all set-ups on the grid
};
constexpr std::size_t num_kept = 8;

/// `config.seed` decides the random set-ups. Throws InputError for what is wrong in any set-up, Infeasible where none
/// that was tried fits.
AutoResult auto_search(const RunConfig& config, const std::vector<Axis>&, const AutoOptions&);

}  // namespace fusion
