#include "exec/cli.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/program/lower.h"

namespace fusion::exec {

void add_quiet_flag(CLI::App& command, Output& output) {
  command.add_flag("--quiet", output.quiet, "nothing on standard error but errors");
}

void add_output_flags(CLI::App& command, Output& output) {
  command.add_flag("--json", output.json, "print JSON instead of a table");
  add_quiet_flag(command, output);
}

void print(const Table& table) {
  const bool colour = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  std::fputs(table.render(colour).c_str(), stdout);
}

void note(const Output& output, const std::string& line) {
  std::fflush(stdout);  // what was printed before stands before
  if (!output.quiet) std::fprintf(stderr, "%s\n", line.c_str());
}

void PlanFlags::declare(CLI::App& command) {
  command.add_option("--plan", file_, "schedule.json of fusion-sim plan; else the options of a plan")
      ->type_name("FILE");
  command.add_option("--config", config_file_, "run.toml with any of the options of a plan; flags win")
      ->type_name("FILE");
  for (const RunOption& option : run_options()) {
    const auto keep = [this, key = std::string(option.key)](const std::string& value) {
      given_.emplace_back(key, value.empty() ? "true" : value);
    };
    CLI::Option* flag =
        command.add_option_function<std::string>("--" + std::string(option.key), keep, std::string(option.help));
    flag->group("Options of a plan, in place of --plan");
    if (option.kind == RunOption::Kind::flag)
      flag->expected(0, 1)->type_name("[true|false]");
    else
      flag->type_name(option.kind == RunOption::Kind::whole_number ? "N" : "TEXT")
          ->default_str(option.get(RunConfig{}));
  }
}

Plan PlanFlags::resolve() const {
  const bool has_options = !given_.empty() || !config_file_.empty();
  if (!file_.empty() && has_options)
    throw CLI::ValidationError("--plan", "says what to run; leave out the options of a plan");
  if (!file_.empty()) return load_plan(file_);
  RunConfig config;
  if (!config_file_.empty()) load_run_config(config_file_, config);
  for (const auto& [key, value] : given_) set_option(config, key, value);
  if (config.model.empty()) throw CLI::RequiredError("--plan, or --model");
  if (config.platform.empty()) throw CLI::RequiredError("--platform");
  Problem problem = load_problem(config);
  Schedule schedule = make_schedule(config, problem);
  return {std::move(problem), std::move(schedule)};
}

Program program_of(const Plan& plan, const std::string& source) {
  const auto& [graph, costs, platform] = plan.problem;
  Program program = lower(plan.schedule, graph, costs, platform);
  validate(program, platform, Sends::buffered, source.empty() ? "plan" : source);
  return program;
}

}  // namespace fusion::exec
