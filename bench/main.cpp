// fusion-bench: how fast the parts of the product are. Figures come out of the run that prints them.
#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <span>

#include "bench/bench.h"
#include "core/base/error.h"
#include "core/base/names.h"
#include "core/report/version.h"

namespace fusion::bench {
namespace {

constexpr std::array subcommands = {
    Subcommand{"plan", "the planner: time of op-fence and chain-optimal, gap to the best plan", add_plan},
    Subcommand{"compress", "the compressors: speed, size, error, and whether they pay on a link", add_compress},
    Subcommand{"simulate", "the simulator: activities per second and memory of a pipeline", add_simulate},
};

/// The first word that stands where a subcommand should, and is none.
std::optional<std::string_view> unknown_subcommand(std::span<char*> arguments) {
  if (arguments.empty() || arguments.front()[0] == '-') return {};
  const std::string_view word = arguments.front();
  if (std::ranges::find(subcommands, word, &Subcommand::name) != subcommands.end()) return {};
  return word;
}

int run(int argc, char** argv) {
  if (const auto word = unknown_subcommand(std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0))) {
    std::cerr << "fusion-bench: " << unknown_name(*word, names_of(subcommands)) << "\n";
    return static_cast<int>(ExitCode::usage);
  }
  CLI::App app{"Benchmarks of FusionLLM's planner, simulator and compressors."};
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  fusion-bench compress --link \"8 Mbps\",\"10 Gbps\"\n  fusion-bench simulate --devices 512 "
      "--micro-batches 64");
  for (const Subcommand& row : subcommands) {
    CLI::App* subcommand = app.add_subcommand(std::string(row.name), std::string(row.help));
    subcommand->callback(row.add(*subcommand));
  }
  try {
    app.parse(argc, argv);
    return static_cast<int>(ExitCode::done);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::done) : static_cast<int>(ExitCode::usage);
  } catch (const InputError& error) {
    std::cerr << "fusion-bench: " << error.what() << "\n";
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    std::cerr << "fusion-bench: " << error.what() << "\n";
    return static_cast<int>(ExitCode::runtime_fault);
  }
}

}  // namespace
}  // namespace fusion::bench

int main(int argc, char** argv) { return fusion::bench::run(argc, argv); }
