// The subcommands of fusion-bench: one row in main.cpp, one source each.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>

namespace fusion::bench {

struct Subcommand {
  std::string_view name;
  std::string_view help;
  /// Adds its options to `app` and returns what to do once the command line has been read.
  std::function<void()> (*add)(CLI::App& app);
};

std::function<void()> add_plan(CLI::App& app);
std::function<void()> add_compress(CLI::App& app);
std::function<void()> add_simulate(CLI::App& app);
std::function<void()> add_sweep(CLI::App& app);

}  // namespace fusion::bench
