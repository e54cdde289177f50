// How a rank ends that can't go on: with which exit code, and whether it says why.
#pragma once

#include <exception>
#include <functional>

#include "core/base/ending.h"
#include "exec/transport.h"

namespace fusion::exec {

/// This rank ends with that code and says nothing: another one says why.
class ToldByPeer : public std::exception {
 public:
  explicit ToldByPeer(ExitCode its_code) : code(its_code) {}
  const char* what() const noexcept override { return "another rank says why"; }
  ExitCode code;
};

/// As the core's; and PeerLost is exit 6.
Ending ending_of(const std::exception&);

/// Runs `work`. Where it throws, the other ranks are told why, and it is thrown on; as ToldByPeer, where another rank
/// says the same.
void run_or_abort(Transport&, const std::function<void()>& work);

}  // namespace fusion::exec
