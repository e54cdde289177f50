// fusion-sim estimate: what one micro-batch of a model costs, and what it would take on one GPU.
#include <map>

#include "core/plan/estimator.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  RunFlags run;
  std::optional<std::string> device;
};

struct BlockCosts {
  std::string name;
  std::size_t num_ops = 0;
  std::int64_t parameters = 0;
  Flops forward{};
  OpTimes times;
};

/// Sums by block label, in order of first appearance. A tied parameter counts in the block that uses it first.
std::vector<BlockCosts> by_block(const Graph& graph, const Costs& costs, const GpuType* gpu, DType dtype) {
  std::vector<BlockCosts> blocks;
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const auto [it, fresh] = index.try_emplace(op.block, blocks.size());
    if (fresh) blocks.push_back({op.block, 0, 0, {}, {}});
    BlockCosts& block = blocks[it->second];
    ++block.num_ops;
    block.forward += costs.ops[i].forward;
    for (const ParameterId id : op.parameters)
      if (graph.parameter(id).users.front() == OpId(i)) block.parameters += num_elements(graph.parameter(id).shape);
    if (gpu == nullptr) continue;
    const OpTimes times = op_times(graph, costs, OpId(i), *gpu, dtype);
    block.times.forward += times.forward;
    block.times.input_gradient += times.input_gradient;
    block.times.weight_gradient += times.weight_gradient;
  }
  return blocks;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

OpTimes sum_of(const std::vector<BlockCosts>& blocks) {
  OpTimes sum;
  for (const BlockCosts& block : blocks) {
    sum.forward += block.times.forward;
    sum.input_gradient += block.times.input_gradient;
    sum.weight_gradient += block.times.weight_gradient;
  }
  return sum;
}

nlohmann::ordered_json to_json(const RunConfig& config, const Graph& graph, const Totals& sum, Bytes training,
                               const GpuType* gpu, const OpTimes& times) {
  nlohmann::ordered_json json = {{"model", graph.name},
                                 {"micro_batch", graph.micro_batch},
                                 {"parameters", sum.parameters},
                                 {"forward_flops", sum.forward_flops.value},
                                 {"backward_flops", sum.backward_flops.value},
                                 {"other_flops", sum.other_flops.value},
                                 {"activation_bytes", sum.activation_bytes.value},
                                 {"precision", name_of(config.training.precision)},
                                 {"optimizer", name_of(config.training.optimizer)},
                                 {"training_bytes", training.value}};
  if (graph.tokens_per_sample > 0) json["tokens_per_sample"] = graph.tokens_per_sample;
  if (gpu != nullptr) {
    json["device"] = gpu->name;
    json["forward_s"] = times.forward.value;
    json["backward_s"] = times.backward().value;
  }
  return json;
}

Table block_table(const std::vector<BlockCosts>& blocks, bool with_times) {
  std::vector<Column> columns = {
      {"block"}, {"ops", Align::right}, {"parameters", Align::right}, {"forward", Align::right}};
  if (with_times) columns.insert(columns.end(), {{"forward time", Align::right}, {"backward time", Align::right}});
  Table table(columns);
  for (const BlockCosts& block : blocks) {
    std::vector<std::string> cells = {block.name.empty() ? "-" : block.name, std::to_string(block.num_ops),
                                      grouped(block.parameters), format(block.forward)};
    if (with_times) cells.insert(cells.end(), {format(block.times.forward), format(block.times.backward())});
    table.add(std::move(cells));
  }
  return table;
}

Table summary_table(const RunConfig& config, const Graph& graph, const Totals& sum, Bytes training, const GpuType* gpu,
                    const OpTimes& times) {
  Table table({{graph.name}, {"one micro-batch of " + std::to_string(graph.micro_batch), Align::right}, {""}});
  table.add({"parameters", grouped(sum.parameters), "a tied parameter counts once"});
  table.add({"forward", format(sum.forward_flops), "matrix products"});
  table.add({"backward", format(sum.backward_flops), "matrix products"});
  table.add({"other", format(sum.other_flops), "norms, activations, softmax, both ways"});
  table.add({"activations", format(sum.activation_bytes), "kept from forward to backward"});
  table.add({"training state", format(training),
             "parameters, gradients, " + std::string(name_of(config.training.optimizer)) + " state, " +
                 std::string(name_of(config.training.precision))});
  if (gpu != nullptr) {
    const Bytes needed = training + sum.activation_bytes;
    table.add({"forward time", format(times.forward), "on " + gpu->name});
    table.add({"backward time", format(times.backward()), "on " + gpu->name});
    table.add({"fits", needed <= gpu->memory ? "yes" : "no",
               format(needed) + " of " + format(gpu->memory) + ", one micro-batch in flight"});
  }
  return table;
}

void estimate_model(const Options& options) {
  const RunConfig config = options.run.resolve();
  ModelOptions model_options = config.model_options;
  model_options.dtype = compute_dtype(config.training.precision);
  const Graph graph = load_model(config.model, model_options);
  const Costs costs = estimate(graph);
  std::optional<GpuType> gpu;
  if (options.device) gpu = find_gpu(*options.device);
  const GpuType* on = gpu ? &*gpu : nullptr;

  const auto blocks = by_block(graph, costs, on, model_options.dtype);
  const Totals sum = totals(graph, costs);
  const Bytes training(sum.parameters * bytes_per_parameter(config.training));
  const OpTimes times = sum_of(blocks);
  if (options.output.json) return print(to_json(config, graph, sum, training, on, times));
  print(block_table(blocks, on != nullptr));
  std::puts("");
  print(summary_table(config, graph, sum, training, on, times));
}

}  // namespace

void declare_estimate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("estimate", "parameters, FLOPs, memory and time of one micro-batch");
  const auto options = std::make_shared<Options>();
  options->run.declare_only(*command, {"model", "micro-batch", "seq", "image-size", "precision", "optimizer"});
  command->add_option("--device", options->device, "GPU of the catalogue to time it on, e.g. \"RTX 4090\"")
      ->type_name("NAME");
  add_output_flags(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-sim estimate --model gpt2 --device \"RTX 4090\"\n"
      "  fusion-sim estimate --model path/to/config.json --micro-batch 4 --seq 2048 --precision bf16 --json");
  command->callback([options] { estimate_model(*options); });
}

}  // namespace fusion::sim
