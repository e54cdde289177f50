// fusion-exec profile: how long each op of a model takes on this machine.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/graph/ops.h"
#include "core/report/version.h"
#include "exec/cli.h"
#include "exec/profile.h"
#include "exec/profile_in_place.h"

namespace fusion::exec {
namespace {

struct Options {
  Output output;
  RunConfig run;
  std::string backend = "torch", device, to, gpu, memory = "4 GiB", in_place;
  int repeats = 10;
};

struct Sum {
  std::size_t count = 0;
  Seconds forward{}, backward{};
  void add(const OpProfile& op) {
    ++count;
    forward += op.forward;
    backward += op.backward;
  }
};

std::map<std::string, Sum> by_kind(const Graph& graph, const std::vector<OpProfile>& ops) {
  std::map<std::string, Sum> kinds;
  for (const OpProfile& op : ops) kinds[std::string(row_of(graph.op(op.op).kind).name)].add(op);
  return kinds;
}

nlohmann::ordered_json to_json(const Options& options, const Problem& problem, const std::vector<OpProfile>& profiles,
                               const MachineFit& fit, BytesPerSecond update) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array(), kinds = ops;
  for (const OpProfile& profile : profiles) {
    const Op& op = problem.graph.op(profile.op);
    const OpCosts& costs = problem.costs.ops[profile.op.index()];
    ops.push_back({{"name", op.name},
                   {"kind", row_of(op.kind).name},
                   {"forward_s", profile.forward.value},
                   {"backward_s", profile.backward.value},
                   {"forward_flops", costs.forward.value},
                   {"backward_flops", (costs.input_gradient + costs.weight_gradient).value}});
  }
  Sum all;
  for (const OpProfile& profile : profiles) all.add(profile);
  for (const auto& [name, sum] : by_kind(problem.graph, profiles))
    kinds.push_back(
        {{"kind", name}, {"count", sum.count}, {"forward_s", sum.forward.value}, {"backward_s", sum.backward.value}});
  nlohmann::ordered_json speeds = nlohmann::ordered_json::object();
  for (const KindSpeed& kind : fit.kinds) speeds[kind.kind] = kind.speed;
  return {{"version", version()},
          {"model", options.run.model},
          {"micro_batch", problem.graph.micro_batch},
          {"backend", options.backend},
          {"repeats", options.repeats},
          {"in_place", options.in_place.empty() ? nullptr : nlohmann::ordered_json(options.in_place)},
          {"forward_s", all.forward.value},
          {"backward_s", all.backward.value},
          {"sustained_flops_per_s", fit.flops.value},
          {"sustained_bytes_per_s", fit.bandwidth.value},
          {"launch_overhead_s", fit.overhead.value},
          {"kind_speed", speeds},
          {"update_bytes_per_s", update.value},
          {"kinds", kinds},
          {"ops", ops}};
}

Table table_of(const Problem& problem, const std::vector<OpProfile>& profiles) {
  Table table({{"kind"}, {"ops", Align::right}, {"forward", Align::right}, {"backward", Align::right}});
  Sum all;
  for (const OpProfile& profile : profiles) all.add(profile);
  for (const auto& [name, sum] : by_kind(problem.graph, profiles))
    table.add({name, std::to_string(sum.count), format(sum.forward), format(sum.backward)});
  table.add({"all", std::to_string(all.count), format(all.forward), format(all.backward)}, Emphasis::strong);
  return table;
}

Problem problem_of(const RunConfig& run) {
  Problem problem{.graph = load_model(run.model, run.model_options), .costs = {}, .platform = {}};
  problem.costs = estimate(problem.graph);
  return problem;
}

struct Measured {
  std::vector<OpProfile> ops;
  BytesPerSecond update{};
};

Measured measured(const Options& options, const Problem& problem) {
  const BackendRow& backend = find_backend(options.backend);
  const ProfileOptions how{.backend = {.device = options.device}, .repeats = options.repeats, .seed = options.run.seed};
  std::vector<OpProfile> ops = profile_ops(problem.graph, backend, how);
  if (options.in_place.empty()) return {std::move(ops), profile_update(problem.graph, options.repeats)};
  const Seconds wait = options.in_place == "none" ? Seconds() : parsed("--in-place", options.in_place, parse_seconds);
  const PassProfile passes = profile_passes(problem.graph, backend, how, wait);
  return {scaled_to(std::move(ops), passes), passes.update};
}

void profile(const Options& options) {
  const Bytes memory = parsed("--memory", options.memory, parse_bytes);
  cli::require_writable({options.to});
  const Problem problem = problem_of(options.run);
  const auto [profiles, update] = measured(options, problem);
  const MachineFit fit = fit_of(problem.graph, problem.costs, profiles);
  const auto json = to_json(options, problem, profiles, fit, update);
  if (!options.gpu.empty()) {
    const std::string source = "fusion-exec profile, " + options.run.model + ", " + options.backend;
    std::fputs(gpu_entry(fit, update, options.gpu, memory, source).c_str(), stdout);
    if (!options.to.empty()) std::printf("profile = \"%s\"\n", std::filesystem::path(options.to).filename().c_str());
  } else if (options.output.json) {
    std::puts(json.dump(2).c_str());
  } else {
    print(table_of(problem, profiles));
  }
  cli::write(options.output, {{options.to, [&] { return json.dump(2) + "\n"; }, ""}});
}

}  // namespace

void declare_profile(CLI::App& app) {
  CLI::App* command = app.add_subcommand("profile", "time each op of a model on this machine");
  const auto options = std::make_shared<Options>();
  for (const RunOption& option : run_options()) {
    constexpr std::array<std::string_view, 5> keys = {"model", "micro-batch", "seq", "image-size", "seed"};
    if (std::ranges::find(keys, option.key) == keys.end()) continue;
    const auto set = [options, key = option.key](const std::string& value) { set_option(options->run, key, value); };
    CLI::Option* flag =
        command->add_option_function<std::string>("--" + std::string(option.key), set, std::string(option.help));
    if (option.key == "model") flag->required();
  }
  command->add_option("--backend", options->backend, "what computes")->capture_default_str()->type_name("NAME");
  command->add_option("--device", options->device, "of the torch backend: cpu, cuda, cuda:1")->type_name("NAME");
  command->add_option("--repeats", options->repeats, "measurements of each op; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command
      ->add_option(
          "--in-place", options->in_place,
          "also run whole training steps and scale the ops to their passes, each after a wait of this time, as "
          "between messages (none: at once); takes the memory of training")
      ->type_name("TIME");
  command
      ->add_option(
          "--gpu", options->gpu,
          "print a [[gpu]] entry of this name for a platform file instead; with -o, the entry names that file, "
          "which then belongs beside the platform file")
      ->type_name("NAME");
  command->add_option("--memory", options->memory, "of the device, for --gpu")
      ->capture_default_str()
      ->type_name("SIZE");
  command->add_option("-o,--output", options->to, "profile.json to write")->type_name("FILE");
  add_output_flags(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-exec profile --model gpt2 --seq 128 -o profile.json\n"
      "  fusion-exec profile --model mlp --micro-batch 32 --gpu \"this machine\" >> platform.toml");
  command->callback([options] { profile(*options); });
}

}  // namespace fusion::exec
