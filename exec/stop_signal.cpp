#include "exec/stop_signal.h"

#include <csignal>

namespace fusion::exec {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

extern "C" void request_stop(int) { requested = true; }

}  // namespace

const std::atomic<bool>& stop_requested() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  return requested;
}

}  // namespace fusion::exec
