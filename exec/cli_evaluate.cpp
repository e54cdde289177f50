// fusion-exec evaluate: loss and accuracy of checkpoints on data that was held out.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/report/table.h"
#include "exec/cli.h"
#include "exec/evaluate.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

struct Options {
  Output output;
  PlanFlags plan;
  std::string checkpoint, data, backend = "torch", over = "tensor";
  EvaluateOptions evaluate;
};

/// The complete steps, in order.
std::vector<fs::path> steps_in(const std::string& directory) {
  std::vector<fs::path> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (fs::exists(entry.path() / "COMPLETE", ignored)) steps.push_back(entry.path());
  if (steps.empty()) throw InputError(directory, "--checkpoint", "holds no complete step");
  std::ranges::sort(steps);
  return steps;
}

void show(const Options& options, const std::vector<Evaluation>& all) {
  if (options.output.json) {
    for (const Evaluation& each : all) {
      nlohmann::ordered_json line = {{"step", each.step}, {"samples", each.samples}, {"loss", each.loss}};
      if (each.accuracy) line["accuracy"] = *each.accuracy;
      std::puts(line.dump().c_str());
    }
    return;
  }
  Table table({{"step", Align::right}, {"samples", Align::right}, {"loss", Align::right}, {"accuracy", Align::right}});
  for (const Evaluation& each : all)
    table.add({std::to_string(each.step), std::to_string(each.samples), significant(each.loss, 5),
               each.accuracy ? percent(*each.accuracy) : "-"});
  print(table);
}

void evaluate_all(const Options& options) {
  const Plan plan = options.plan.resolve().plan;
  EvaluateOptions evaluation = options.evaluate;
  evaluation.over = parsed("--topk-over", options.over, parse_topk_over);
  const auto data = open_data(options.data, plan.problem.graph, plan.schedule.seed);
  const BackendRow& backend = find_backend(options.backend);
  std::vector<Evaluation> all;
  for (const fs::path& step : steps_in(options.checkpoint))
    all.push_back(evaluate(plan.problem.graph, plan.schedule, read_checkpoint(step), backend, *data, evaluation));
  show(options, all);
}

}  // namespace

void declare_evaluate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("evaluate", "loss and accuracy of checkpoints on held-out data");
  const auto options = std::make_shared<Options>();
  options->plan.declare(*command);
  command->add_option("--checkpoint", options->checkpoint, "directory of a run; every complete step in it is looked at")
      ->required()
      ->type_name("DIR");
  command->add_option("--data", options->data, "as train takes it: other data than was trained on")
      ->required()
      ->type_name("SOURCE");
  command->add_option("--batches", options->evaluate.micro_batches, "micro-batches of it")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_flag("--coded", options->evaluate.coded,
                    "activations cross the cuts as the plan codes them; else exactly");
  command->add_option("--topk-over", options->over, "of --coded, as train takes it")
      ->capture_default_str()
      ->type_name("tensor|rows");
  command->add_option("--backend", options->backend, "what computes")->capture_default_str()->type_name("NAME");
  add_output_flags(*command, options->output);
  command->footer(
      "All stages run in this process, one after another. Dropout drops nothing; a batch norm takes the statistics of "
      "its micro-batch.\n"
      "Example: fusion-exec evaluate --plan schedule.json --checkpoint run1 --data text:other.txt --batches 32");
  command->callback([options] { evaluate_all(*options); });
}

}  // namespace fusion::exec
