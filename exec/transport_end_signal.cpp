#include "exec/transport_end_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

/// What the signal handler uses.
std::atomic<int> end_event = -1;
std::atomic<void (*)(int)> program_handler = nullptr;

extern "C" void on_end(int signal) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(end_event, &one, sizeof one);
  if (const auto handler = program_handler.load()) handler(signal);
}

}  // namespace

EndSignal::EndSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0) throw RuntimeFault("no event can be made: the process has too many open files");
  end_event = event_;
  struct sigaction action = {};
  action.sa_handler = on_end;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, nullptr, &before_);
  if (before_.sa_handler != SIG_DFL && before_.sa_handler != SIG_IGN) program_handler = before_.sa_handler;
  ::sigaction(SIGTERM, &action, nullptr);
}

EndSignal::~EndSignal() {
  ::sigaction(SIGTERM, &before_, nullptr);
  program_handler = nullptr;
  end_event = -1;
  ::close(event_);
}

void EndSignal::take() {
  std::uint64_t times = 0;
  [[maybe_unused]] const auto taken = ::read(event_, &times, sizeof times);
}

bool EndSignal::is_handled() { return program_handler.load() != nullptr; }

}  // namespace fusion::exec
