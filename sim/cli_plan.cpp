// fusion-sim plan: which device runs what, and what crosses each cut.
#include <set>
#include "core/plan/bounds.h"

#include "core/plan/stage_costs.h"
#include "core/plan/traffic.h"
#include "core/program/order.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  RunFlags run;
  std::string to;
};

/// What leaves a stage: bytes on the wire per micro-batch forward, and the codecs in use.
std::string outgoing(const Schedule& schedule, const Graph& graph, StageId from) {
  Bytes bytes{};
  std::string codecs;
  for (const CutEdge& edge : schedule.edges) {
    if (edge.from != from || is_hand_over(schedule, edge)) continue;
    bytes += wire_bytes(graph.tensor(edge.tensor), edge.activation);
    const std::string codec = to_string(edge.activation);
    if (codecs.find(codec) == std::string::npos) codecs += (codecs.empty() ? "" : ", ") + codec;
  }
  return codecs.empty() ? "-" : format(bytes) + " " + codecs;
}

Table stage_table(const Schedule& schedule, const Problem& problem) {
  Table table({{"stage", Align::right},
               {"device"},
               {"GPU"},
               {"runs"},
               {"forward", Align::right},
               {"backward", Align::right},
               {"memory", Align::right},
               {"of", Align::right},
               {"sends", Align::right}});
  const std::vector<StageCosts> costs = stage_costs(schedule, problem.graph, problem.costs, problem.platform);
  const std::vector<Bytes> memory = memory_by_device(schedule, costs);
  std::set<DeviceId> seen;
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    const Stage& stage = schedule.stages[s];
    const StageCosts& cost = costs[s];
    const GpuType& gpu = problem.platform.gpu_of(stage.device);
    const bool is_first = seen.insert(stage.device).second;  // of its device, which is what needs the memory
    table.add({std::to_string(s), problem.platform.device(stage.device).name, gpu.name,
               stage_name(problem.graph, stage), format(cost.forward + cost.forward_codec),
               format(cost.backward_pass()), is_first ? format(memory[seen.size() - 1]) : "",
               is_first ? format(gpu.memory) : "", outgoing(schedule, problem.graph, StageId(s))});
  }
  return table;
}

/// What sets the pace, where predict() says it.
std::string pace(const Schedule& schedule, const Problem& problem, const Order& order) {
  if (!order.is_plain()) return "by a replay without sharing of links";
  const auto costs = stage_costs(schedule, problem.graph, problem.costs, problem.platform);
  const Prediction prediction = predict(schedule, problem.graph, costs, problem.platform);
  return "the pace is set by " + prediction.pace_name + ", " + format(prediction.pace) + " per micro-batch";
}

std::string summary(const Schedule& schedule, const Problem& problem) {
  const Order order = find_order(schedule.order);
  return schedule.policy + ", " + schedule.compress + ", " + schedule.order + ": predicted iteration " +
         format(schedule.predicted_iteration) + " for " + std::to_string(schedule.micro_batches) +
         " micro-batches on " + (schedule.replicas > 1 ? std::to_string(schedule.replicas) + " replicas, " : "") +
         std::to_string(devices_used(schedule)) + " of " + std::to_string(problem.platform.devices.size()) +
         " devices; " + pace(schedule, problem, order);
}

/// How far the plan can be from the best one at most.
std::string gap_line(const Schedule& schedule, Seconds bound) {
  return "no placement takes less than " + format(bound) + ": this one is at most " +
         percent(optimality_gap(schedule.predicted_iteration, bound)) + " above the best";
}

/// The schedule with two keys more.
std::string to_json(std::string schedule_text, const Schedule& schedule, Seconds bound) {
  const auto number = [](double value) { return nlohmann::json(value).dump(); };
  schedule_text.insert(schedule_text.rfind("\n}"), ",\n  \"lower_bound_s\": " + number(bound.value) + ",\n  \"gap\": " +
                                                       number(optimality_gap(schedule.predicted_iteration, bound)));
  return schedule_text;
}

void make_plan(const Options& options) {
  const RunConfig config = options.run.resolve();
  cli::require_writable({options.to, config_beside(options.to)});
  const Problem problem = load_problem(config);
  const Schedule schedule = make_schedule(config, problem);
  const std::string text = write_schedule(schedule, problem.graph, problem.platform);
  const Seconds bound = lower_bound(problem, schedule);
  if (options.output.json) {
    std::puts(to_json(text, schedule, bound).c_str());
  } else {
    print(stage_table(schedule, problem));
    std::printf("\n%s\n%s\n", summary(schedule, problem).c_str(), gap_line(schedule, bound).c_str());
  }
  cli::write(options.output,
             {{options.to, [&] { return text; }, "replay it with: fusion-sim simulate --plan " + options.to}});
  write_config_beside(options.to, config);
}

}  // namespace

void declare_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "place a model on a platform and say what it would take");
  const auto options = std::make_shared<Options>();
  options->run.declare_all(*command);
  command->add_option("-o,--output", options->to, "schedule.json to write")->type_name("FILE");
  add_output_flags(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-sim plan --model gpt2 --platform testbed-3 --compress adatopk:100 -o schedule.json\n"
      "  fusion-sim plan --model resnet101 --platform lan4 --policy equal-compute --order gpipe");
  command->callback([options] { make_plan(*options); });
}

}  // namespace fusion::sim
