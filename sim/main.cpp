// fusion-sim: plan, simulate and compare the training of one network on geo-distributed GPUs.
#include "core/cli/program.h"
#include "sim/cli.h"
#include "sim/cli_auto.h"

int main(int argc, char** argv) {
  using namespace fusion::sim;
  const fusion::cli::ProgramRow program = {
      .name = "fusion-sim",
      .description = "Plan, simulate and compare the training of one network on geo-distributed GPUs.",
      .footer =
          "Examples:\n"
          "  fusion-sim rank --model gpt2 --platform testbed-3            every policy, one table\n"
          "  fusion-sim plan --model gpt2 --platform testbed-3 -o s.json  the best placement, written down\n"
          "  fusion-sim simulate --plan s.json --timeline t.json          replay it; open t.json in Perfetto\n"
          "Exit codes: 0 done, 2 usage, 3 bad input, 4 infeasible, 5 runtime fault.",
      .commands = {declare_rank, declare_sweep, declare_plan, declare_auto, declare_simulate, declare_estimate,
                   declare_compare, declare_report, declare_platform, declare_lists},
      .refuse = {},
      .end = {}};
  return fusion::cli::run_program(program, argc, argv);
}
