// Work in forked processes, handed out one piece at a time to whoever is free.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace fusion::sim {

/// What a worker said, or how it ended without saying it: "was ended by a signal: Killed".
struct Answer {
  std::string text;
  std::string death;
};

struct Work {
  /// Runs here: the next job, or none where there is none left.
  std::function<std::optional<std::size_t>()> next;
  /// Runs in a worker.
  std::function<std::string(std::size_t job)> run;
  /// Runs here, once per job, in the order in which they end.
  std::function<void(std::size_t job, const Answer&)> done;
};

enum class Lifetime {
  many_jobs,  ///< a worker goes on until the work ends
  one_job     ///< each job has a new process, for what can be done once per process
};

/// Runs jobs in up to `num_workers` processes forked from this one, until `next` gives none. Where a worker dies
/// another takes its place. Workers end with this process, however it ends.
void run_in_workers(const Work&, int num_workers, Lifetime = Lifetime::many_jobs);

}  // namespace fusion::sim
