// Sweeps: every combination of some values of a run's options, simulated; resumable, by any number of worker processes
// of any number of sweeps that run at once, on one machine or on many that share the folder (sim/journal.h).
//
//   DIR/journal.jsonl     a line per set-up as it ends, in no order; what a resumed sweep does not do again
//   DIR/results.jsonl     the same in the order of the grid, once all are done
//   DIR/results.csv       that as a table
//   DIR/configs/ID.toml   the resolved options of each set-up; ID is the hash of all that its result follows from
//
// results.* are the same bytes whatever the number of workers and processes and however often the sweep was stopped and
// resumed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.h"

namespace fusion::sim {

/// One option of a run and the values it takes; "engine" and "network" are axes too.
struct Axis {
  std::string key;
  std::vector<std::string> values;
  std::string place;  ///< "sweep.toml:3" where a file gives it; messages begin with it
};

struct SetUp {
  std::string id;  ///< 16 hexadecimal digits
  RunConfig config;
  std::string engine = "native", network = "ideal";
};

/// The product of the axes, the last one fastest; options without an axis are those of `base`. Throws InputError for a
/// key, value, model, platform, engine or network that there is not, before anything runs.
std::vector<SetUp> set_ups(const RunConfig& base, const std::vector<Axis>& axes);

/// "model=gpt2,resnet101". Throws InputError.
Axis parse_axis(const std::string& text);

/// A sweep.toml: keys of a run, each with a list of values. Throws InputError.
std::vector<Axis> load_axes(const std::filesystem::path&);

/// Runs what DIR/journal.jsonl lacks and no other process is at, waits for the others, takes over from those that die,
/// and writes the results. `ended` is called after each set-up. Throws InputError for a directory that can't be written
/// or locked. Returns the lines in the order of the grid.
std::vector<std::string> sweep(const std::vector<SetUp>&, const std::filesystem::path& directory, int num_workers,
                               const std::function<void(const SetUp&)>& ended);

}  // namespace fusion::sim
