// The commands of fusion-exec. A command is one cli_*.cpp with a function that declares its flags on a CLI11 subcommand
// and sets its callback; what commands share is in core/cli.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/cli/output.h"
#include "core/cli/run_flags.h"

namespace fusion::exec {

using cli::add_output_flags, cli::add_quiet_flag, cli::note, cli::Output, cli::PlanFlags, cli::print;

/// The value of a flag. Throws InputError naming it for what `parse` refuses.
template <class Parse>
auto parsed(std::string_view flag, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& fault) {
    throw InputError("", flag, fault.what());
  }
}

// One function per command.
void declare_train(CLI::App&);
void declare_evaluate(CLI::App&);
void declare_profile(CLI::App&);
void declare_probe(CLI::App&);
void declare_launch(CLI::App&);
void declare_lists(CLI::App&);  // backends, data

}  // namespace fusion::exec
