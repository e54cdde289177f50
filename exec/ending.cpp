#include "exec/ending.h"

#include <new>

namespace fusion::exec {

Ending ending_of(const std::exception& error) {
  const auto is = [&]<class E>(std::type_identity<E>) { return dynamic_cast<const E*>(&error) != nullptr; };
  if (is(std::type_identity<UsageError>())) return {ExitCode::usage, error.what()};
  if (is(std::type_identity<InputError>())) return {ExitCode::bad_input, error.what()};
  if (is(std::type_identity<Infeasible>())) return {ExitCode::infeasible, error.what()};
  if (is(std::type_identity<PeerLost>())) return {ExitCode::peer_lost, error.what()};
  if (is(std::type_identity<RuntimeFault>())) return {ExitCode::runtime_fault, error.what()};
  if (is(std::type_identity<std::bad_alloc>())) return {ExitCode::runtime_fault, "out of memory"};
  return {ExitCode::runtime_fault, std::string("internal error, please report it: ") + error.what()};
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
