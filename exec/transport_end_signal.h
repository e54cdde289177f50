// SIGTERM, with which a launcher ends a job, as something that can be polled.
#pragma once

#include <csignal>

namespace fusion::exec {

/// SIGTERM goes to an event while this lives, and on to the handler that was there before. One at a time.
class EndSignal {
 public:
  EndSignal();  ///< throws RuntimeFault
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;
  ~EndSignal();

  int event() const { return event_; }  ///< can be polled for reading
  void take();                          ///< so that it can be polled for the next one
  /// Whether the program has a handler of its own, so that it ends in its own way when asked to.
  static bool is_handled();

 private:
  int event_;
  struct sigaction before_ = {};
};

}  // namespace fusion::exec
