// A program of several commands: what it says of itself, and how it ends.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "core/base/ending.h"

namespace fusion::cli {

struct ProgramRow {
  std::string name, description, footer;
  std::vector<std::function<void(CLI::App&)>> commands;  ///< each declares its flags on the app and sets a callback
  /// Ends with a command line that is wrong; the message says what is. By default tell_failure with exit code 2.
  std::function<int(const std::string& message)> refuse;
  /// Ends with what a command threw. By default tell_failure with its ending_of.
  std::function<int(const std::exception&)> end;
};

/// "SPEAKER: MESSAGE" on standard error, behind all that was printed. Returns the code.
int tell_failure(const std::string& speaker, const Ending&);

/// Parses, runs the command, and answers with the exit code. An error is one line on standard error; an unknown flag or
/// command is told with the nearest of those that there are.
int run_program(const ProgramRow&, int argc, char** argv);

/// What is wrong with a command line that CLI11 refused. `help` is where its flags are told.
std::string refusal_of(const CLI::App&, const CLI::ParseError&, const std::string& help = "--help");

}  // namespace fusion::cli
