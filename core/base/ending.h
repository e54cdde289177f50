// How a program ends that can't go on: with which exit code, and the one line that it says.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "core/base/error.h"

namespace fusion {

/// Flags that don't go together. Exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Ending {
  ExitCode code = ExitCode::runtime_fault;
  std::string message;
};
/// Of what was thrown; for what nobody knows, an internal error.
Ending ending_of(const std::exception&);

}  // namespace fusion
