// SIGTERM, SIGINT and SIGUSR1 (which mpirun passes on without killing) ask a run to end after its step.
#pragma once

#include <atomic>

namespace fusion::exec {

/// Set by the first of these signals; the second one of the same kind ends the process at once. Installs the handlers.
const std::atomic<bool>& stop_requested();

}  // namespace fusion::exec
