// The three ways things go wrong, and the exit code of each.
//
//   the user's fault   InputError (exit 3), Infeasible (exit 4): thrown, caught once in main, printed as one line
//   the run's fault    RuntimeFault (exit 5): a run that stops with work left
//   our own fault      check(): always on, throws std::logic_error with the place
#pragma once

#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fusion {

enum class ExitCode : int { done = 0, usage = 2, bad_input = 3, infeasible = 4, runtime_fault = 5, peer_lost = 6 };

/// Bad input. `what()` is one line (line breaks in its parts are escaped): "file:line: key: message", with the parts
/// that are known.
class InputError : public std::runtime_error {
 public:
  InputError(std::string_view file, std::string_view key, std::string_view message, int line = 0);
};

/// No placement fits; the message names the tightest device or stage and by how much.
class Infeasible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A run that could not finish; the message lists what still waits.
class RuntimeFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Asserts our own invariants, in every build.
inline void check(bool condition, std::string_view message,
                  std::source_location where = std::source_location::current()) {
  if (!condition) [[unlikely]]
    throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " +
                           std::string(message));
}

/// `text` between quotes, fit for a one-line message: control characters escaped, a long text cut.
std::string in_quotes(std::string_view text);

/// Up to three of `valid` near `name` in edit distance, or that contain it ("4090"), nearest first.
std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> valid);

/// `"bandwith" is not known; did you mean "bandwidth"?` — up to three names near `name` in edit distance, or the
/// whole list where none is near and the list is short.
std::string unknown_name(std::string_view name, std::span<const std::string_view> valid);

}  // namespace fusion
