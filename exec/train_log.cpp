#include "exec/train_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/estimator.h"
#include "core/report/table.h"

namespace fusion::exec {
namespace {

/// Null where messages take no time: between threads of one process.
const ChannelUse* slowest_of(const StepSummary& step) {
  const auto slowest = std::ranges::max_element(step.channels, {}, &ChannelUse::busy);
  return slowest == step.channels.end() || slowest->busy == Seconds{} ? nullptr : &*slowest;
}

double per_second(std::int64_t count, const StepSummary& step) {
  return static_cast<double>(count) / step.iteration.value;
}

}  // namespace

StepFigures figures_of(const Program& program, const Graph& graph, const Platform& platform, std::int64_t steps,
                       std::optional<FlopsPerSecond> peak_of_a_rank) {
  StepFigures figures{.info = program.info, .devices = {}, .model_flops = {}, .peak = {}, .steps = steps};
  for (const DeviceProgram& device : program.devices) figures.devices.push_back(platform.device(device.device).name);
  const Totals sums = totals(graph, estimate(graph));
  figures.model_flops = (sums.forward_flops + sums.backward_flops) *
                        static_cast<double>(program.info.micro_batches * program.info.replicas);
  if (peak_of_a_rank) figures.peak = *peak_of_a_rank * static_cast<double>(program.devices.size());
  return figures;
}

double bubble_of(const StepSummary& step) {
  Seconds busy{};
  for (const Seconds of_rank : step.busy) busy += of_rank;
  return 1 - busy / step.iteration / static_cast<double>(step.busy.size());
}

double utilisation_of(const StepSummary& step, const StepFigures& figures) {
  check(figures.peak.has_value(), "a utilisation needs a peak");
  return figures.model_flops / *figures.peak / step.iteration;
}

std::string line_of(const StepSummary& step, const StepFigures& figures) {
  std::string line = "step " + std::to_string(step.step) + '/' + std::to_string(figures.steps) + "  loss " +
                     significant(step.loss, 5) + "  " + format(step.iteration) + "  " +
                     significant(per_second(figures.info.samples, step)) + " samples/s";
  if (figures.info.tokens > 0) line += "  " + significant(per_second(figures.info.tokens, step)) + " tokens/s";
  line += "  bubble " + percent(bubble_of(step));
  if (const ChannelUse* link = slowest_of(step))
    line += "  slowest link " + figures.devices[static_cast<std::size_t>(link->from)] + " > " +
            figures.devices[static_cast<std::size_t>(link->to)] + ' ' + percent(link->busy / step.iteration);
  if (figures.peak) line += "  MFU " + percent(utilisation_of(step, figures));
  return line;
}

std::string json_of(const StepSummary& step, const StepFigures& figures) {
  nlohmann::ordered_json json = {{"step", step.step},
                                 {"loss", step.loss},
                                 {"iteration_s", step.iteration.value},
                                 {"samples_per_s", per_second(figures.info.samples, step)},
                                 {"tokens_per_s", per_second(figures.info.tokens, step)},
                                 {"bubble_fraction", bubble_of(step)}};
  auto busy = nlohmann::ordered_json::array();
  for (const Seconds of_rank : step.busy) busy.push_back(of_rank.value);
  json["busy_s"] = std::move(busy);
  if (const ChannelUse* link = slowest_of(step))
    json["slowest_link"] = {{"from", figures.devices[static_cast<std::size_t>(link->from)]},
                            {"to", figures.devices[static_cast<std::size_t>(link->to)]},
                            {"bytes", link->bytes.value},
                            {"busy_s", link->busy.value}};
  if (figures.peak) json["mfu"] = utilisation_of(step, figures);
  return json.dump();
}

}  // namespace fusion::exec
