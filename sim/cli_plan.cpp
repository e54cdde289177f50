// fusion-sim plan: which device runs what, and what crosses each cut.
#include "core/base/file.h"
#include "core/plan/stage_costs.h"
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
    if (edge.from != from) continue;
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
  const Order order = find_order(schedule.order);
  const int num_stages = static_cast<int>(schedule.stages.size());
  for (int s = 0; s < num_stages; ++s) {
    const Stage& stage = schedule.stages[static_cast<std::size_t>(s)];
    const StageCosts& cost = costs[static_cast<std::size_t>(s)];
    const GpuType& gpu = problem.platform.gpu_of(stage.device);
    const int in_flight = order.in_flight({num_stages, s, schedule.micro_batches});
    table.add({std::to_string(s), problem.platform.device(stage.device).name, gpu.name,
               stage_name(problem.graph, stage), format(cost.forward + cost.forward_codec),
               format(cost.backward_pass()), format(memory_needed(cost, in_flight)), format(gpu.memory),
               outgoing(schedule, problem.graph, StageId(static_cast<std::size_t>(s)))});
  }
  return table;
}

std::string summary(const Schedule& schedule, const Problem& problem) {
  const auto costs = stage_costs(schedule, problem.graph, problem.costs, problem.platform);
  const Prediction prediction = predict(schedule, problem.graph, costs, problem.platform);
  return schedule.policy + ", " + schedule.compress + ", " + schedule.order + ": predicted iteration " +
         format(prediction.iteration) + " for " + std::to_string(schedule.micro_batches) + " micro-batches on " +
         std::to_string(schedule.stages.size()) + " of " + std::to_string(problem.platform.devices.size()) +
         " devices; the pace is set by " + prediction.pace_name + ", " + format(prediction.pace) + " per micro-batch";
}

void make_plan(const Options& options) {
  const RunConfig config = options.run.resolve();
  const Problem problem = load_problem(config);
  const Schedule schedule = make_schedule(config, problem);
  const std::string text = write_schedule(schedule, problem.graph, problem.platform);
  if (options.output.json) {
    std::puts(text.c_str());
  } else {
    print(stage_table(schedule, problem));
    std::printf("\n%s\n", summary(schedule, problem).c_str());
  }
  if (options.to.empty()) return;
  write_text(options.to, text);
  write_config_beside(options.to, config);
  note(options.output, "wrote " + options.to + "; replay it with: fusion-sim simulate --plan " + options.to);
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
