// fusion-sim simulate: replay a plan.
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/program/lower.h"
#include "core/report/report_tables.h"
#include "sim/cli.h"
#include "sim/engines.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  RunFlags run;
  std::string plan, report, timeline, network = "ideal", engine = "simgrid";
};

struct Planned {
  Plan plan;
  std::optional<RunConfig> config;  ///< none for a plan from a file
};

Planned planned(const Options& options) {
  if (options.plan.empty()) {
    const RunConfig config = options.run.resolve();
    Problem problem = load_problem(config);
    Schedule schedule = make_schedule(config, problem);
    return {{std::move(problem), std::move(schedule)}, config};
  }
  if (options.run.any()) throw CLI::ValidationError("--plan", "says what to run; leave out the options of a plan");
  return {load_plan(options.plan), {}};
}

void write_results(const Report& report, const Program& program, const Planned& run, const Options& options) {
  if (!options.report.empty()) {
    write_text(options.report, write_report(report));
    if (run.config) write_config_beside(options.report, *run.config);
    note(options.output, "wrote " + options.report);
  }
  if (!options.timeline.empty()) {
    write_text(options.timeline, write_timeline(report, program, run.plan.problem.platform));
    note(options.output, "wrote " + options.timeline + "; open it in https://ui.perfetto.dev");
  }
}

void show(const Report& report) {
  constexpr std::size_t busiest_channels = 10;
  print(device_table(report));
  if (!report.links.empty()) {
    std::puts("");
    print(channel_table(report, busiest_channels));
  }
  std::printf("\n%s\n", summary(report).c_str());
}

void simulate_plan(const Options& options) {
  const EngineRow& engine = find_engine(options.engine);
  engine.require_network(options.network);
  const Planned run = planned(options);
  const auto& [graph, costs, platform] = run.plan.problem;
  const Program program = lower(run.plan.schedule, graph, costs, platform);
  validate(program, platform, Sends::buffered, options.plan.empty() ? "plan" : options.plan);
  const Report report = engine.simulate(program, platform, options.network, !options.timeline.empty());
  if (options.output.json)
    std::puts(write_report(report).c_str());
  else
    show(report);
  write_results(report, program, run, options);
}

}  // namespace

void declare_simulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "replay a plan");
  const auto options = std::make_shared<Options>();
  command->add_option("--plan", options->plan, "schedule.json of fusion-sim plan; else the options of a plan")
      ->type_name("FILE");
  options->run.declare_all(*command);
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
