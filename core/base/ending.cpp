#include "core/base/ending.h"

#include <new>
#include <type_traits>

namespace fusion {

Ending ending_of(const std::exception& error) {
  const auto is = [&]<class E>(std::type_identity<E>) { return dynamic_cast<const E*>(&error) != nullptr; };
  if (is(std::type_identity<UsageError>())) return {ExitCode::usage, error.what()};
  if (is(std::type_identity<InputError>())) return {ExitCode::bad_input, error.what()};
  if (is(std::type_identity<Infeasible>())) return {ExitCode::infeasible, error.what()};
  if (is(std::type_identity<RuntimeFault>())) return {ExitCode::runtime_fault, error.what()};
  if (is(std::type_identity<std::bad_alloc>())) return {ExitCode::runtime_fault, "out of memory"};
  return {ExitCode::runtime_fault, std::string("internal error, please report it: ") + error.what()};
}

}  // namespace fusion
