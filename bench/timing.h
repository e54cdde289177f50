// Ratios of times on a machine that others use too. Google Benchmark times one function after another, each in a window
// of its own, so that a ratio mixes the noise of two moments; here the functions take turns, and the shortest of each
// counts: what they take undisturbed, in one and the same run.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <vector>

namespace fusion::bench {

using Job = std::function<void()>;

inline double seconds_of(const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  job();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The shortest time of each job in seconds, after one turn to warm up: at least three turns, then until `turns` or
/// `limit_s`.
inline std::vector<double> shortest(const std::vector<Job>& jobs, int turns, double limit_s) {
  std::vector<double> best(jobs.size(), std::numeric_limits<double>::infinity());
  for (const Job& job : jobs) job();
  double spent_s = 0;
  for (int turn = 0; turn < 3 || (turn < turns && spent_s < limit_s); ++turn)
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const double time_s = seconds_of(jobs[i]);
      best[i] = std::min(best[i], time_s);
      spent_s += time_s;
    }
  return best;
}

}  // namespace fusion::bench
