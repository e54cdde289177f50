// Progress of long work, on a terminal only: one line on standard error that rewrites itself and leaves nothing behind.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace fusion::sim {

class Progress {
 public:
  /// Shows nothing when `quiet` or where standard error is no terminal.
  Progress(std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The next of `total` pieces begins, or has ended. Says how long the rest takes at the pace so far.
  void next(const std::string& what);

 private:
  std::size_t total_, begun_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace fusion::sim
