// What the commands of fusion-sim share: their table, their output flags, and the options that describe a run.
//
// A command is one cli_*.cpp with a function that declares its flags on a CLI11 subcommand and sets its callback. Data
// goes to standard output, progress and log to standard error.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/run_config.h"
#include "core/report/table.h"

namespace fusion::sim {

/// How a command answers.
struct Output {
  bool json = false;   ///< machine-readable on standard output instead of a table
  bool quiet = false;  ///< nothing on standard error
};

/// Adds --json and --quiet; or --quiet alone, for commands whose answer is a file of its own kind.
void add_output_flags(CLI::App&, Output&);
void add_quiet_flag(CLI::App&, Output&);

/// Prints a table, in colour where standard output is a terminal and NO_COLOR is not set.
void print(const Table&);
void print(const nlohmann::ordered_json&);

/// A line on standard error, unless quiet.
void note(const Output&, const std::string& line);

/// The options of a run, from flags and an optional --config file; flags win.
class RunFlags {
 public:
  /// Adds --config and one flag per run option, but for those named.
  void declare_all_but(CLI::App&, const std::vector<std::string_view>& left_out);
  void declare_all(CLI::App& command) { declare_all_but(command, {}); }
  /// Adds the flags named, and no --config; for commands that need no platform.
  void declare_only(CLI::App&, const std::vector<std::string_view>& keys);
  /// Throws InputError for a value that an option can't take, CLI::RequiredError without a model or platform.
  RunConfig resolve() const;
  /// The same, but a model or platform may still be missing.
  RunConfig resolve_partly() const;
  bool any() const { return !given_.empty() || !config_file_.empty(); }

 private:
  void declare(CLI::App&, const RunOption&);
  std::string config_file_;
  bool needs_platform_ = true;
  std::vector<std::pair<std::string, std::string>> given_;
};

/// Writes the resolved options of a run beside its result: "report.json" gets a "report.config.toml".
void write_config_beside(const std::filesystem::path& result, const RunConfig&);

// One function per command; each declares its flags and sets the callback.
void declare_lists(CLI::App&);  // models, platforms, gpus, policies, orders, codecs, collectives
void declare_estimate(CLI::App&);
void declare_plan(CLI::App&);
void declare_simulate(CLI::App&);
void declare_rank(CLI::App&);
void declare_sweep(CLI::App&);
void declare_compare(CLI::App&);
void declare_platform(CLI::App&);

}  // namespace fusion::sim
