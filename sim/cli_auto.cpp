// fusion-sim auto: the quickest set-up, searched with the native engine; SimGrid has the last word on the best few.
#include "sim/cli_auto.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/toml_file.h"
#include "core/plan/auto.h"
#include "core/plan/bounds.h"
#include "core/program/lower.h"
#include "sim/cli.h"
#include "sim/engines.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  RunFlags run;
  std::vector<std::string> compressions;
  std::string budget = "5 s", to;
  std::size_t max_evaluations = 200, num_finalists = 4;
};

/// What the user has said is not searched.
bool is_given(const CLI::App& command, const std::string& key) {
  if (command.count("--" + key) > 0) return true;
  return command.count("--config") > 0 && load_toml(command.get_option("--config")->as<std::string>()).has(key);
}

std::vector<Axis> axes_of(const CLI::App& command, const RunConfig& config, const Options& options) {
  std::vector<Axis> axes = all_axes(config);
  std::erase_if(axes, [&](const Axis& axis) { return is_given(command, axis.key); });
  if (!options.compressions.empty()) axes.push_back({"compress", {}});
  for (const std::string& name : options.compressions) {
    RunConfig tried = config;
    set_option(tried, "compress", name);
    axes.back().values.push_back(tried.compress);
  }
  return axes;
}

/// A set-up that SimGrid has simulated.
struct Finalist {
  const Trial* trial = nullptr;
  Seconds simulated{}, bound{};
};

std::vector<Finalist> referee(const AutoResult& found, std::size_t count) {
  std::vector<Finalist> finalists;
  for (const Trial& trial : found.best) {
    if (finalists.size() == count) break;
    const Problem problem = load_problem(trial.config);
    const Program program = lower(trial.schedule, problem.graph, problem.costs, problem.platform);
    validate(program, problem.platform, Sends::buffered, "auto");
    const Report report = find_engine("simgrid").simulate_again(program, problem.platform, "ideal");
    finalists.push_back({&trial, report.iteration, lower_bound(problem, trial.schedule)});
  }
  std::ranges::stable_sort(finalists, {}, &Finalist::simulated);
  return finalists;
}

Table table_of(const std::vector<Finalist>& finalists) {
  Table table({{"", Align::right},
               {"policy"},
               {"order"},
               {"micro-batches", Align::right},
               {"replicas", Align::right},
               {"compression"},
               {"devices", Align::right},
               {"predicted", Align::right},
               {"above bound", Align::right},
               {"native", Align::right},
               {"SimGrid", Align::right}});
  std::size_t place = 0;
  for (const auto& [trial, simulated, bound] : finalists) {
    const Schedule& schedule = trial->schedule;
    table.add({std::to_string(++place), schedule.policy, schedule.order,
               std::to_string(schedule.micro_batches) + " of " + std::to_string(schedule.model_options.micro_batch),
               std::to_string(schedule.replicas), schedule.compress, std::to_string(devices_used(schedule)),
               format(schedule.predicted_iteration), percent(optimality_gap(schedule.predicted_iteration, bound)),
               format(trial->iteration), format(simulated)},
              place == 1 ? Emphasis::strong : Emphasis::none);
  }
  return table;
}

nlohmann::ordered_json to_json(const std::vector<Finalist>& finalists, const AutoResult& found) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [trial, simulated, bound] : finalists) {
    const Schedule& schedule = trial->schedule;
    list.push_back({{"policy", schedule.policy},
                    {"order", schedule.order},
                    {"micro_batches", schedule.micro_batches},
                    {"micro_batch", schedule.model_options.micro_batch},
                    {"replicas", schedule.replicas},
                    {"compress", schedule.compress},
                    {"devices_used", devices_used(schedule)},
                    {"predicted_iteration_s", schedule.predicted_iteration.value},
                    {"lower_bound_s", bound.value},
                    {"native_iteration_s", trial->iteration.value},
                    {"iteration_s", simulated.value}});
  }
  return {{"evaluations", found.num_evaluations},
          {"infeasible", found.num_infeasible},
          {"set_ups", found.num_setups},
          {"best", std::move(list)}};
}

void search(const Options& options, const CLI::App& command) {
  const RunConfig config = options.run.resolve();
  cli::require_writable({options.to, config_beside(options.to)});
  const std::vector<Axis> axes = axes_of(command, config, options);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(parse_seconds(options.budget).value);
  const AutoResult found = auto_search(config, axes, {.max_evaluations = options.max_evaluations, .is_time_up = [&] {
                                                        return std::chrono::steady_clock::now() >= deadline;
                                                      }});
  note(options.output, "tried " + std::to_string(found.num_evaluations) + " of " + std::to_string(found.num_setups) +
                           " set-ups; --evaluations " + std::to_string(found.num_evaluations) +
                           " with a --budget that is long enough gives the same on any machine");
  const std::vector<Finalist> finalists = referee(found, options.num_finalists);
  options.output.json ? print(to_json(finalists, found)) : print(table_of(finalists));
  const Trial& best = *finalists.front().trial;
  const auto text = [&] {
    const Problem problem = load_problem(best.config);
    return write_schedule(best.schedule, problem.graph, problem.platform);
  };
  cli::write(options.output, {{options.to, text, "replay it with: fusion-sim simulate --plan " + options.to}});
  write_config_beside(options.to, best.config);
}

}  // namespace

void declare_auto(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("auto", "search policy, order, micro-batches and replicas for the quickest iteration");
  const auto options = std::make_shared<Options>();
  options->run.declare_all(*command);
  command
      ->add_option(
          "--codecs", options->compressions,
          "compressions to choose from, with commas; they change what is trained. Default: what --compress says")
      ->delimiter(',')
      ->type_name("NAMES");
  command->add_option("--budget", options->budget, "time to search for, like \"5 s\"")->capture_default_str();
  command->add_option("--evaluations", options->max_evaluations, "most set-ups to try")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--best", options->num_finalists, "set-ups that SimGrid simulates")
      ->check(CLI::Range(std::size_t{1}, num_kept))
      ->capture_default_str();
  command->add_option("-o,--output", options->to, "schedule.json of the best")->type_name("FILE");
  add_output_flags(*command, options->output);
  command->footer(
      "Options that are given are kept; of policy, order, micro-batches and replicas the others are searched.\n"
      "An iteration keeps its samples, micro-batches x micro-batch.\n"
      "Examples:\n"
      "  fusion-sim auto --model gpt2 --platform testbed-3 --budget \"10 s\" -o schedule.json\n"
      "  fusion-sim auto --model resnet101 --platform lan4 --order 1f1b --codecs none,fp16,adatopk:100");
  command->callback([options, command] { search(*options, *command); });
}

}  // namespace fusion::sim
