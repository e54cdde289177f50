// Processes that can be told apart and watched.
#pragma once

#include <cstdint>

namespace fusion::exec {

/// Names a process among those of one running kernel.
struct ProcessName {
  std::uint64_t kernel = 0;  ///< hash of the boot and the space of process ids
  std::int64_t id = 0;
};
ProcessName this_process();

/// A descriptor that can be polled, for reading, once that process has ended; -1 where it can't be watched (on another
/// machine, not permitted, gone already).
int open_process(const ProcessName&);

}  // namespace fusion::exec
