// fusion-bench: how fast the parts of the product are. Figures come out of the run that prints them.
#include <array>

#include "bench/bench.h"
#include "core/cli/program.h"

namespace fusion::bench {
namespace {

constexpr std::array subcommands = {
    Subcommand{"plan", "the planner: time of op-fence and chain-optimal, gap to the best plan", add_plan},
    Subcommand{"compress", "the compressors: speed, size, error, and whether they pay on a link", add_compress},
    Subcommand{"simulate", "the simulator: activities per second and memory of a pipeline", add_simulate},
    Subcommand{"sweep", "a sweep of random placements: native engine, SimGrid, bare heap loop", add_sweep},
};

cli::ProgramRow program() {
  cli::ProgramRow program = {.name = "fusion-bench",
                             .description = "Benchmarks of FusionLLM's planner, simulator and compressors.",
                             .footer =
                                 "Examples:\n"
                                 "  fusion-bench compress --link \"8 Mbps\",\"10 Gbps\"\n"
                                 "  fusion-bench simulate --devices 512 --micro-batches 64",
                             .commands = {},
                             .refuse = {},
                             .end = {}};
  for (const Subcommand& row : subcommands)
    program.commands.emplace_back([&row](CLI::App& app) {
      CLI::App* command = app.add_subcommand(std::string(row.name), std::string(row.help));
      command->callback(row.add(*command));
    });
  return program;
}

}  // namespace
}  // namespace fusion::bench

int main(int argc, char** argv) { return fusion::cli::run_program(fusion::bench::program(), argc, argv); }
