// What the commands of fusion-exec share. A command is one cli_*.cpp with a function that declares its flags on a CLI11
// subcommand and sets its callback. Data goes to standard output, progress and log to standard error.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/run_config.h"
#include "core/program/program.h"
#include "core/report/table.h"

namespace fusion::exec {

struct Output {
  bool json = false;   ///< machine-readable on standard output instead of a table
  bool quiet = false;  ///< nothing on standard error
};
void add_quiet_flag(CLI::App&, Output&);
void add_output_flags(CLI::App&, Output&);
void print(const Table&);
/// A line on standard error, unless quiet.
void note(const Output&, const std::string& line);

/// What to run: a schedule file, or the options of a plan.
class PlanFlags {
 public:
  /// Adds --plan, --config and a flag per run option.
  void declare(CLI::App&);
  /// Throws InputError, Infeasible, CLI::Error for both or neither.
  Plan resolve() const;
  const std::string& file() const { return file_; }

 private:
  std::string file_, config_file_;
  std::vector<std::pair<std::string, std::string>> given_;
};

/// The program of a plan, proven to finish.
Program program_of(const Plan&, const std::string& source);

// One function per command.
void declare_train(CLI::App&);
void declare_profile(CLI::App&);
void declare_probe(CLI::App&);
void declare_launch(CLI::App&);
void declare_lists(CLI::App&);  // backends, data

}  // namespace fusion::exec
