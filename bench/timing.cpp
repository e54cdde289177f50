#include "bench/timing.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace fusion::bench {
namespace {

/// Prints nothing: the figures are ours to show.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

double seconds_of(const Job& job) {
  benchmark::ClobberMemory();
  const auto start = std::chrono::steady_clock::now();
  job();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> shortest(const std::vector<Job>& jobs, int turns, double limit_s) {
  std::vector<double> best(jobs.size(), std::numeric_limits<double>::infinity());
  const double first_s = seconds_of([&] {
    for (const Job& job : jobs) job();
  });
  const auto turn = [&](benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) {
      double all_s = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const double time_s = seconds_of(jobs[i]);
        best[i] = std::min(best[i], time_s);
        all_s += time_s;
      }
      state.SetIterationTime(all_s);
    }
  };
  const int fitting = std::max(3, static_cast<int>(std::min(limit_s / first_s, 1e6)));
  benchmark::RegisterBenchmark("turns", turn)->Iterations(std::min(turns, fitting))->UseManualTime();
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(&silent);
  benchmark::ClearRegisteredBenchmarks();
  return best;
}

}  // namespace fusion::bench
