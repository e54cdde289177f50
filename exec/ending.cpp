#include "exec/ending.h"

namespace fusion::exec {

Ending ending_of(const std::exception& error) {
  if (dynamic_cast<const PeerLost*>(&error) != nullptr) return {ExitCode::peer_lost, error.what()};
  return fusion::ending_of(error);
}

void run_or_abort(Transport& transport, const std::function<void()>& work) {
  try {
    work();
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    const auto [code, message] = ending_of(error);
    if (transport.abort(code, message)) throw ToldByPeer(code);
    throw;
  }
}

}  // namespace fusion::exec
