// fusion-sim rank: every policy with every compression, simulated, in one table.
#include <algorithm>

#include "core/base/error.h"
#include "core/plan/bounds.h"
#include "sim/cli.h"
#include "sim/engines.h"
#include "sim/progress.h"
#include "sim/rank.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  RunFlags run;
  std::string policies = "all", compressions = "all", engine = "simgrid", network = "ideal", to, best;
};

bool is_all(const std::vector<std::string>& names) { return names.size() == 1 && names.front() == "all"; }

/// Each name once, where it stands first.
std::vector<std::string> names_in(std::string_view flag, const std::string& list) {
  std::vector<std::string> kept;
  for (const std::string& name : cli::split_list(flag, list))
    if (std::ranges::find(kept, name) == kept.end()) kept.push_back(name);
  return kept;
}

void say_what_is_left_out(const RunConfig& config, const Output& output) {
  const RunConfig defaults;
  if (config.policy != defaults.policy)
    note(output, "note: policy = " + config.policy + " is for plan; see --policies");
  if (config.compress != defaults.compress)
    note(output, "note: compress = " + config.compress + " of the file is for plan; see --compress");
}

RankRequest request_of(const Options& options) {
  RankRequest request{options.run.resolve(), names_in("--policies", options.policies),
                      names_in("--compress", options.compressions), options.engine, options.network};
  find_engine(request.engine).require_network(request.network);
  say_what_is_left_out(request.config, options.output);
  if (is_all(request.policies)) request.policies = all_policies();
  if (is_all(request.compressions)) request.compressions = all_compressions(0);
  RunConfig tried = request.config;  // a wrong name fails before the work begins
  for (const std::string& policy : request.policies) set_option(tried, "policy", policy);
  for (const std::string& compress : request.compressions) set_option(tried, "compress", compress);
  return request;
}

Table table_of(const Ranking& ranking) {
  Table table({{"", Align::right},
               {"policy"},
               {"compression"},
               {"predicted", Align::right},
               {"above bound", Align::right},
               {"simulated", Align::right},
               {"samples/s", Align::right},
               {"speed-up", Align::right},
               {"devices", Align::right},
               {"mean bubble", Align::right},
               {"wire bytes", Align::right}});
  std::size_t place = 0;
  for (const RankRow& row : ranking.rows) {
    if (!row.report) {
      table.add({"-", row.policy, row.compress, "-", "-", "infeasible", "-", "-", "-", "-", "-"}, Emphasis::faint);
      continue;
    }
    const Report& report = *row.report;
    double bubble = 0;
    Bytes bytes{};
    for (const DeviceReport& device : report.devices) bubble += device.bubble_fraction;
    for (const LinkReport& link : report.links) bytes += link.bytes;
    const bool is_baseline = row.policy + ", " + row.compress == ranking.baseline;
    table.add({std::to_string(++place), row.policy, row.compress, format(report.info.predicted_iteration),
               percent(optimality_gap(report.info.predicted_iteration, row.lower_bound)), format(report.iteration),
               significant(samples_per_second(report)), significant(row.speedup) + "x" + (is_baseline ? " (base)" : ""),
               std::to_string(report.devices.size()) + "/" + std::to_string(report.info.devices_available),
               percent(bubble / static_cast<double>(report.devices.size())), format(bytes)},
              place == 1 ? Emphasis::strong : Emphasis::none);
  }
  return table;
}

nlohmann::ordered_json to_json(const Ranking& ranking) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RankRow& row : ranking.rows) {
    if (!row.report) {
      list.push_back({{"policy", row.policy}, {"compress", row.compress}, {"infeasible", row.failure}});
      continue;
    }
    auto json = nlohmann::ordered_json::parse(write_report(*row.report));
    json["speedup"] = row.speedup;
    json["lower_bound_s"] = row.lower_bound.value;
    json["gap"] = optimality_gap(row.report->info.predicted_iteration, row.lower_bound);
    list.push_back(std::move(json));
  }
  return list;
}

void write_results(const Ranking& ranking, const nlohmann::ordered_json& json, const Problem& problem,
                   const RankRequest& request, const Options& options) {
  const auto best = [&] { return write_schedule(ranking.rows.front().schedule, problem.graph, problem.platform); };
  cli::write(options.output, {{options.to, [&] { return json.dump(2) + "\n"; }, ""}, {options.best, best, ""}});
  write_config_beside(options.to, request.config);
}

void rank_policies(const Options& options) {
  const RankRequest request = request_of(options);
  cli::require_writable({options.to, config_beside(options.to), options.best});
  const Problem problem = load_problem(request.config);
  Ranking ranking;
  {
    Progress progress(request.policies.size() * request.compressions.size(), options.output.quiet);
    ranking = rank(request, problem, [&](const std::string& what) { progress.next(what); });
  }
  if (ranking.baseline.empty()) throw Infeasible("no policy fits: " + ranking.rows.front().failure);
  const nlohmann::ordered_json json = to_json(ranking);
  if (options.output.json) {
    print(json);
  } else {
    print(table_of(ranking));
    std::printf(
        "\nSpeed-up is over %s. All but none change what is trained: the table compares time, not convergence.\n",
        ranking.baseline.c_str());
  }
  write_results(ranking, json, problem, request, options);
}

}  // namespace

void declare_rank(CLI::App& app) {
  CLI::App* command = app.add_subcommand("rank", "every policy with every compression, simulated, in one table");
  const auto options = std::make_shared<Options>();
  options->run.declare_all_but(*command, {"policy", "compress"});
  command->add_option("--policies", options->policies, "policies to compare, or all; the first is the baseline")
      ->capture_default_str()
      ->type_name("NAME[,NAME…]");
  command
      ->add_option("--compress", options->compressions, "compressions to compare, or all; e.g. none,fp16,adatopk:100")
      ->capture_default_str()
      ->type_name("NAME[,NAME…]");
  command->add_option("--engine", options->engine, engine_help())->capture_default_str()->type_name("NAME");
  command->add_option("--network", options->network, network_help())->capture_default_str()->type_name("NAME");
  command->add_option("-o,--output", options->to, "JSON file to write")->type_name("FILE");
  command->add_option("--best", options->best, "schedule.json to write: the fastest plan")->type_name("FILE");
  add_output_flags(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-sim rank --model gpt2 --platform testbed-3\n"
      "  fusion-sim rank --model resnet101 --platform testbed-2 --policies equal-number,op-fence --compress "
      "none,adatopk:100");
  command->callback([options] { rank_policies(*options); });
}

}  // namespace fusion::sim
