// The options of a run, one table for flags (--micro-batches 8) and files (micro-batches = 8): key, meaning, valid
// values and default stand once. Keys have hyphens in both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/plan/plan.h"

namespace fusion {

struct RunOption {
  enum class Kind : std::uint8_t { text, whole_number, flag };
  std::string_view key;
  std::string_view help;
  Kind kind;
  /// Throws std::invalid_argument that names the value and what would be right. A flag takes "true" or "false".
  void (*set)(RunConfig&, const std::string& value);
  std::string (*get)(const RunConfig&);
};

std::span<const RunOption> run_options();

/// Sets one option by key; `place` says where a file has it ("run.toml:3"), empty where no file does. Throws InputError
/// naming key and value.
void set_option(RunConfig&, std::string_view key, const std::string& value, const std::string& place = {});

/// Puts the options of a --config file over those of `config`. Throws InputError naming file, line and key.
void load_run_config(const std::filesystem::path&, RunConfig& config);

/// The options that decide the problem as text: equal for two that load the same one.
std::string problem_key(const ProblemOptions&);

/// All options as TOML, which `load_run_config` reads back.
std::string write_run_config(const RunConfig&);

}  // namespace fusion
