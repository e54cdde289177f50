// fusion-sim simulate: replay a plan.
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/codec_course.h"
#include "core/program/lower.h"
#include "core/report/table.h"
#include "sim/cli.h"
#include "sim/engines.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  PlanFlags plan;
  std::string report, timeline, network = "ideal", engine = "simgrid";
  CodecCourse codecs;
  std::int64_t steps = 0;
};

struct Span {
  CourseSpan steps;
  Seconds iteration;
  Seconds all() const { return iteration * static_cast<double>(steps.end - steps.first); }
};

/// Each stretch of a training run whose codecs are alike, and what one iteration of it takes.
std::vector<Span> simulate_course(const Options& options, const PlanFlags::Chosen& run, const EngineRow& engine) {
  const auto& [graph, costs, platform] = run.plan.problem;
  std::vector<Span> spans;
  for (const CourseSpan& steps : spans_of(options.codecs, options.steps)) {
    const Program program = lower(schedule_at(run.plan.schedule, options.codecs, steps.first), graph, costs, platform);
    spans.push_back({steps, engine.simulate_again(program, platform, options.network).iteration});
  }
  return spans;
}

void show_course(const Options& options, const std::vector<Span>& spans) {
  Seconds all{};
  for (const Span& span : spans) all += span.all();
  if (options.output.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const Span& span : spans)
      rows.push_back(
          {{"first_step", span.steps.first + 1}, {"last_step", span.steps.end}, {"iteration_s", span.iteration.value}});
    std::puts(
        nlohmann::ordered_json{{"steps", options.steps}, {"training_s", all.value}, {"spans", rows}}.dump(2).c_str());
    return;
  }
  Table table({{"steps"}, {"iteration", Align::right}, {"all", Align::right}});
  for (const Span& span : spans)
    table.add({std::to_string(span.steps.first + 1) + " - " + std::to_string(span.steps.end), format(span.iteration),
               format(span.all())});
  table.add({"1 - " + std::to_string(options.steps), "", format(all)}, Emphasis::strong);
  print(table);
}

void simulate_plan(const Options& options) {
  const EngineRow& engine = find_engine(options.engine);
  engine.require_network(options.network);
  cli::require_writable({options.report, options.timeline});
  if (options.plan.file().empty()) cli::require_writable({config_beside(options.report)});
  const PlanFlags::Chosen run = options.plan.resolve();
  const Platform& platform = run.plan.problem.platform;
  if (options.steps > 0) return show_course(options, simulate_course(options, run, engine));
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
  CLI::Option* steps =
      command->add_option("--steps", options->steps, "time of a whole training run of so many steps, no report")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command
      ->add_option("--compress-after", options->codecs.after, "so many of them at the start send everything as it is")
      ->check(CLI::NonNegativeNumber)
      ->needs(steps);
  command
      ->add_option("--compress-warmup", options->codecs.warmup,
                   "over so many steps from there top-k's ratio grows to its own")
      ->check(CLI::NonNegativeNumber)
      ->needs(steps);
  add_output_flags(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-sim simulate --plan schedule.json --report report.json --timeline timeline.json\n"
      "  fusion-sim simulate --model gpt2 --platform testbed-1 --compress fp16 --network tcp");
  command->callback([options] { simulate_plan(*options); });
}

}  // namespace fusion::sim
