// The commands of fusion-sim. A command is one cli_*.cpp with a function that declares its flags on a CLI11 subcommand
// and sets its callback; what commands share is in core/cli.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/cli/output.h"
#include "core/cli/run_flags.h"

namespace fusion::sim {

using cli::add_output_flags, cli::add_quiet_flag, cli::config_beside, cli::note, cli::Output, cli::print;
using cli::PlanFlags, cli::RunFlags, cli::write_config_beside;

void print(const nlohmann::ordered_json&);

// One function per command; each declares its flags and sets the callback.
void declare_lists(CLI::App&);  // models, platforms, gpus, policies, orders, codecs, collectives
void declare_estimate(CLI::App&);
void declare_plan(CLI::App&);
void declare_simulate(CLI::App&);
void declare_rank(CLI::App&);
void declare_sweep(CLI::App&);
void declare_compare(CLI::App&);
void declare_report(CLI::App&);
void declare_platform(CLI::App&);

}  // namespace fusion::sim
