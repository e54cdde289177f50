// SIGTERM, SIGINT and SIGUSR1 (which mpirun passes on without killing) ask a run to end after its step.
//
// A process that links this holds them back from before the constructors of its shared libraries, libtorch's among them
// (a third of a second), until `catch_stop_signals`, where its first argument is "train".
#pragma once

#include <atomic>

namespace fusion::exec {

/// From now on these signals set `stop_requested`. A second SIGTERM or SIGINT ends the process at once; SIGUSR1 may
/// come as often as it likes.
void catch_stop_signals();
const std::atomic<bool>& stop_requested();

}  // namespace fusion::exec
