// Ratios of times on a machine that others use too. Google Benchmark runs and counts; but where it would time one
// function after another, each in a window of its own, so that a ratio mixes the noise of two moments, here the
// functions take turns within one of its iterations, and the shortest of each counts: what they take undisturbed, in
// one and the same run.
#pragma once

#include <functional>
#include <vector>

namespace fusion::bench {

using Job = std::function<void()>;

double seconds_of(const Job&);

/// The shortest time of each job in seconds, after one turn to warm up: `turns`, or as many as fit in `limit_s` by the
/// time that the first one took, three at least.
std::vector<double> shortest(const std::vector<Job>&, int turns, double limit_s);

}  // namespace fusion::bench
