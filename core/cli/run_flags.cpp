#include "core/cli/run_flags.h"

#include <algorithm>
#include <filesystem>

#include "core/base/file.h"
#include "core/plan/compression_pair.h"
#include "core/program/lower.h"

namespace fusion::cli {

void RunFlags::declare(CLI::App& command, const RunOption& option, const std::string& group) {
  const std::string flag = "--" + std::string(option.key), help(option.help);
  // A flag with or without a value, so that it can take back what a --config file says.
  const auto keep = [this, key = std::string(option.key)](const std::string& value) {
    given_.emplace_back(key, value.empty() ? "true" : value);
  };
  const auto keep_as_it_is = [this, key = std::string(option.key)](const std::string& value) {
    given_.emplace_back(key, value);
  };
  CLI::Option* added = nullptr;
  if (option.kind == RunOption::Kind::flag)
    added = command.add_option_function<std::string>(flag, keep, help)->expected(0, 1)->type_name("[true|false]");
  else
    added = command.add_option_function<std::string>(flag, keep_as_it_is, help)
                ->type_name(option.kind == RunOption::Kind::whole_number ? "N" : "TEXT")
                ->default_str(option.get(RunConfig{}));
  if (!group.empty()) added->group(group);
}

void RunFlags::declare_all_but(CLI::App& command, const std::vector<std::string_view>& left_out,
                               const std::string& group) {
  command.add_option("--config", config_file_, "run.toml with any of the options of a run; flags win")
      ->type_name("FILE");
  for (const RunOption& option : run_options())
    if (std::ranges::find(left_out, option.key) == left_out.end()) declare(command, option, group);
}

void RunFlags::declare_only(CLI::App& command, const std::vector<std::string_view>& keys) {
  needs_platform_ = false;
  for (const RunOption& option : run_options())
    if (std::ranges::find(keys, option.key) != keys.end()) declare(command, option, "");
}

RunConfig RunFlags::resolve_partly() const {
  RunConfig config;
  if (!config_file_.empty()) load_run_config(config_file_, config);
  for (const auto& [key, value] : given_) set_option(config, key, value);
  return config;
}

RunConfig RunFlags::resolve() const {
  RunConfig config = resolve_partly();
  if (config.model.empty()) throw CLI::RequiredError("--model");
  if (needs_platform_ && config.platform.empty()) throw CLI::RequiredError("--platform");
  return config;
}

std::optional<std::string> RunFlags::given() const {
  if (!given_.empty()) return "--" + given_.front().first;
  return config_file_.empty() ? std::nullopt : std::optional<std::string>("--config");
}

namespace {

/// The value of --compress, where nothing else is asked for.
std::optional<std::string> compress_alone(const RunFlags& flags) {
  if (flags.given() != "--compress") return {};
  const RunConfig asked = flags.resolve_partly();
  RunConfig alone;
  alone.compress = asked.compress;
  return write_run_config(asked) == write_run_config(alone) ? std::optional(asked.compress) : std::nullopt;
}

}  // namespace

void PlanFlags::declare(CLI::App& command) {
  command
      .add_option("--plan", file_,
                  "schedule.json of fusion-sim plan, whose edges --compress codes anew; else the options of a plan")
      ->type_name("FILE");
  run_.declare_all(command, "Options of a plan, in place of --plan");
}

PlanFlags::Chosen PlanFlags::resolve() const {
  if (!file_.empty()) {
    const auto given = run_.given();
    if (!given) return {load_plan(file_), {}, file_};
    const std::optional<std::string> compress = compress_alone(run_);
    if (!compress) throw CLI::ValidationError("--plan", "says what to run; leave out " + *given);
    Plan plan = load_plan(file_);
    recompress(plan, *compress);
    return {std::move(plan), {}, file_};
  }
  const RunConfig partly = run_.resolve_partly();
  if (partly.model.empty()) throw CLI::RequiredError("--plan, or --model");
  const RunConfig config = run_.resolve();
  Problem problem = load_problem(config);
  Schedule schedule = make_schedule(config, problem);
  return {{std::move(problem), std::move(schedule)}, config, "plan"};
}

Program program_of(const PlanFlags::Chosen& chosen) {
  const auto& [graph, costs, platform] = chosen.plan.problem;
  Program program = lower(chosen.plan.schedule, graph, costs, platform);
  validate(program, platform, Sends::buffered, chosen.source);
  return program;
}

std::string config_beside(const std::string& result) {
  if (result.empty() || !is_replaceable(result)) return {};
  return std::filesystem::path(result).replace_extension(".config.toml").string();
}

void write_config_beside(const std::string& result, const RunConfig& config) {
  const std::string path = config_beside(result);
  if (!path.empty()) write_text(path, write_run_config(config));
}

}  // namespace fusion::cli
