// Measurements in a process of their own: memory is what this one alone took, and engines are new.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <type_traits>

#include "core/base/error.h"

namespace fusion::bench {

/// Most memory that this process has held so far.
inline double peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

/// Runs `measure` in a forked child and hands its sample over.
template <class Measure>
auto in_child(Measure measure) {
  using Sample = decltype(measure());
  static_assert(std::is_trivially_copyable_v<Sample>);
  std::array<int, 2> ends{};
  check(pipe(ends.data()) == 0, "pipe");
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) {
    const Sample sample = measure();
    _exit(write(ends[1], &sample, sizeof sample) == sizeof sample ? 0 : 1);
  }
  close(ends[1]);
  Sample sample{};
  const bool complete = read(ends[0], &sample, sizeof sample) == sizeof sample;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!complete || status != 0) throw RuntimeFault("a measurement in a child process failed");
  return sample;
}

}  // namespace fusion::bench
