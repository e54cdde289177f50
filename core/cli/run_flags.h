// The options that describe a run, as flags; and a plan, as a file or as those options.
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

namespace fusion::cli {

/// The options of a run, from flags and an optional --config file; flags win.
class RunFlags {
 public:
  /// Adds --config and one flag per run option, but for those named. `group` heads them in --help.
  void declare_all_but(CLI::App&, const std::vector<std::string_view>& left_out, const std::string& group = "");
  void declare_all(CLI::App& command, const std::string& group = "") { declare_all_but(command, {}, group); }
  /// Adds the flags named, and no --config; for commands that need no platform.
  void declare_only(CLI::App&, const std::vector<std::string_view>& keys);
  /// Throws InputError for a value that an option can't take, CLI::RequiredError without a model or platform.
  RunConfig resolve() const;
  /// The same, but a model or platform may still be missing.
  RunConfig resolve_partly() const;
  /// The flag that was given first, "--model", or --config; nothing where none was.
  std::optional<std::string> given() const;

 private:
  void declare(CLI::App&, const RunOption&, const std::string& group);
  std::string config_file_;
  bool needs_platform_ = true;
  std::vector<std::pair<std::string, std::string>> given_;
};

/// What to run: a schedule file, or the options of a plan.
class PlanFlags {
 public:
  /// Adds --plan, --config and a flag per run option.
  void declare(CLI::App&);

  struct Chosen {
    Plan plan;
    std::optional<RunConfig> config;  ///< none for a plan from a file
    std::string source;               ///< what errors name
  };
  /// Throws InputError, Infeasible, CLI::Error for both or neither.
  Chosen resolve() const;
  const std::string& file() const { return file_; }
  const RunFlags& run() const { return run_; }

 private:
  std::string file_;
  RunFlags run_;
};

/// The program of a plan, proven to finish.
Program program_of(const PlanFlags::Chosen&);

/// "report.json" gets a "report.config.toml"; nothing for a result that goes to no file.
std::string config_beside(const std::string& result);
/// Writes the resolved options of a run there.
void write_config_beside(const std::string& result, const RunConfig&);

}  // namespace fusion::cli
