// Work in forked processes, handed out one piece at a time to whoever is free.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace fusion::sim {

/// Runs jobs 0 to `num_jobs` - 1 in `num_workers` processes forked from this one. `work` runs in a worker and answers
/// with a text of one line; `done` runs here, once per job, in the order in which they end, with an empty answer for a
/// job whose worker died (another worker takes its place). Workers end with this process, however it ends.
void run_in_workers(std::size_t num_jobs, int num_workers, const std::function<std::string(std::size_t)>& work,
                    const std::function<void(std::size_t, const std::string&)>& done);

}  // namespace fusion::sim
