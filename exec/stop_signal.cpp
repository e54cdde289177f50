#include "exec/stop_signal.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>

namespace fusion::exec {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

extern "C" void request_stop(int) { requested = true; }

constexpr std::array stop_signals = {SIGTERM, SIGINT, SIGUSR1};

/// Neither a library nor a sanitizer is ready yet: only the kernel is asked, and no function of a library called.
[[gnu::no_sanitize("address", "thread", "undefined")]] void hold_stop_signals(int argc, char** argv, char**) {
  constexpr std::array<char, 6> command = {"train"};
  if (argc < 2) return;
  for (std::size_t i = 0; i < command.size(); ++i)
    if (argv[1][i] != command[i]) return;
  std::uint64_t mask = 0;  // as the kernel has it
  for (const int signal : stop_signals) mask |= std::uint64_t{1} << (signal - 1);
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, nullptr, sizeof mask);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const first_of_all)(int, char**, char**) = hold_stop_signals;

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : stop_signals) {
    sigaddset(&held, signal);
    action.sa_flags = SA_RESTART | (signal == SIGUSR1 ? 0 : static_cast<int>(SA_RESETHAND));
    sigaction(signal, &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

const std::atomic<bool>& stop_requested() { return requested; }

}  // namespace fusion::exec
