// fusion-sim simulate: replay a plan.
#include "core/base/error.h"
#include "sim/cli.h"
#include "sim/engines.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  PlanFlags plan;
  std::string report, timeline, network = "ideal", engine = "simgrid";
};

void simulate_plan(const Options& options) {
  const EngineRow& engine = find_engine(options.engine);
  engine.require_network(options.network);
  cli::require_writable({options.report, options.timeline});
  if (options.plan.file().empty()) cli::require_writable({config_beside(options.report)});
  const PlanFlags::Chosen run = options.plan.resolve();
  const Platform& platform = run.plan.problem.platform;
  const Program program = cli::program_of(run);
  const Report report = engine.simulate(program, platform, options.network, !options.timeline.empty());
  if (options.output.json)
    std::puts(write_report(report).c_str());
  else
    print(report);
  cli::write(options.output, {{options.report, [&] { return write_report(report); }, ""},
                              {options.timeline, [&] { return write_timeline(report, program, platform); },
                               "open it in https://ui.perfetto.dev"}});
  if (run.config) write_config_beside(options.report, *run.config);
}

}  // namespace

void declare_simulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "replay a plan");
  const auto options = std::make_shared<Options>();
  options->plan.declare(*command);
  command->add_option("--engine", options->engine, engine_help())->capture_default_str()->type_name("NAME");
  command->add_option("--network", options->network, network_help())->capture_default_str()->type_name("NAME");
  command->add_option("--report", options->report, "report.json to write")->type_name("FILE");
  command->add_option("--timeline", options->timeline, "Chrome trace to write, for Perfetto")->type_name("FILE");
  add_output_flags(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-sim simulate --plan schedule.json --report report.json --timeline timeline.json\n"
      "  fusion-sim simulate --model gpt2 --platform testbed-1 --compress fp16 --network tcp");
  command->callback([options] { simulate_plan(*options); });
}

}  // namespace fusion::sim
