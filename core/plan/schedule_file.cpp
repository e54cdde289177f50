// schedule.json: the Schedule field by field, devices, ops and tensors by name, one stage and one edge a line.
#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_file.h"
#include "core/base/names.h"
#include "core/plan/compression_pair.h"
#include "core/plan/plan.h"
#include "core/plan/schedule.h"
#include "core/plan/stage_costs.h"
#include "core/program/collective.h"

namespace fusion {
namespace {

using nlohmann::ordered_json;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view range_sign = "..";

/// Ids by name, with the error that names the nearest ones.
template <class IdType>
class Names {
 public:
  template <class Items>
  explicit Names(const Items& items) {
    for (std::size_t i = 0; i < items.size(); ++i) ids_.emplace(items[i].name, IdType(i));
  }
  std::optional<IdType> find(std::string_view name) const {
    const auto it = ids_.find(name);
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  IdType require(const JsonObject& object, std::string_view key, std::string_view name) const {
    if (const auto id = find(name)) return *id;
    std::vector<std::string_view> names;
    for (const auto& [each, id] : ids_) names.push_back(each);
    throw object.error(key, unknown_name(name, names));
  }

 private:
  std::map<std::string_view, IdType> ids_;
};

struct OpRange {
  OpId first, last;
  bool operator==(const OpRange&) const = default;
};

/// "op" or "first..last". Names may hold dots too: a whole name wins over a range, a short first over a long one.
std::optional<OpRange> parse_range(const Names<OpId>& ops, std::string_view text) {
  if (const auto op = ops.find(text)) return OpRange{*op, *op};
  for (auto at = text.find(range_sign); at != std::string_view::npos; at = text.find(range_sign, at + 1)) {
    const auto first = ops.find(text.substr(0, at)), last = ops.find(text.substr(at + range_sign.size()));
    if (first && last) return OpRange{*first, *last};
  }
  return std::nullopt;
}

/// Runs of consecutive ids, each as a range unless its text would be read as something else.
std::vector<std::string> write_ops(const std::vector<OpId>& ops, const Graph& graph, const Names<OpId>& names) {
  std::vector<std::string> texts;
  for (std::size_t begin = 0, end = 0; begin < ops.size(); begin = end) {
    for (end = begin + 1; end < ops.size() && ops[end].value == ops[end - 1].value + 1;) ++end;
    const OpRange range{ops[begin], ops[end - 1]};
    const std::string text = graph.op(range.first).name + std::string(range_sign) + graph.op(range.last).name;
    if (end - begin > 1 && parse_range(names, text) == range)
      texts.push_back(text);
    else
      for (std::size_t i = begin; i < end; ++i) texts.push_back(graph.op(ops[i]).name);
  }
  return texts;
}

ordered_json stages_of(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  const Names<OpId> names(graph.ops);
  ordered_json list = ordered_json::array();
  for (const Stage& stage : schedule.stages)
    list.push_back({{"device", platform.device(stage.device).name},
                    {"replica", stage.replica},
                    {"name", stage_name(graph, stage)},
                    {"ops", write_ops(stage.ops, graph, names)}});
  return list;
}

ordered_json edges_of(const Schedule& schedule, const Graph& graph) {
  ordered_json list = ordered_json::array();
  for (const CutEdge& edge : schedule.edges)
    list.push_back({{"tensor", graph.tensor(edge.tensor).name},
                    {"from", edge.from.value},
                    {"to", edge.to.value},
                    {"activation", to_string(edge.activation)},
                    {"gradient", to_string(edge.gradient)}});
  return list;
}

/// One line per key, and one per item of a list.
std::string lines(const ordered_json& root) {
  std::string text = "{";
  for (const auto& [key, value] : root.items()) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + ordered_json(key).dump() + ": ";
    if (!value.is_array()) {
      text += value.dump();
      continue;
    }
    std::string items;
    for (const ordered_json& item : value) items += (items.empty() ? "\n    " : ",\n    ") + item.dump();
    text += "[" + items + (items.empty() ? "]" : "\n  ]");
  }
  return text + "\n}\n";
}

/// Runs a parser that throws std::invalid_argument on the string of a key.
template <class Parse>
auto parsed(const JsonObject& object, std::string_view key, Parse parse) {
  try {
    return parse(object.string(key));
  } catch (const std::invalid_argument& fault) {
    throw object.error(key, fault.what());
  }
}

ModelOptions read_model_options(const JsonObject& object) {
  ModelOptions options;
  options.micro_batch = object.integer("micro_batch", 1, largest);
  options.sequence_length = object.integer("sequence_length", 0, largest);
  options.image_size = object.integer("image_size", 0, largest);
  object.reject_unknown();
  return options;
}

Training read_training(const JsonObject& object) {
  Training training;
  training.optimizer = parsed(object, "optimizer", parse_optimizer);
  training.precision = parsed(object, "precision", parse_precision);
  training.recompute = object.boolean("recompute");
  object.reject_unknown();
  return training;
}

Stage read_stage(const JsonObject& object, const Graph& graph, const Names<OpId>& ops, const Names<DeviceId>& devices) {
  Stage stage;
  stage.device = devices.require(object, "device", object.string("device"));
  stage.replica = static_cast<int>(object.integer("replica", 0, std::numeric_limits<int>::max()));
  for (const std::string& text : object.strings("ops")) {
    const auto range = parse_range(ops, text);
    if (!range) ops.require(object, "ops", text.substr(0, text.find(range_sign)));
    if (!range) throw object.error("ops", "\"" + text + "\" is not an op or a range \"first..last\" of ops");
    if (range->last < range->first)
      throw object.error("ops", "\"" + text + "\" runs backwards: the model has the ops in the other order");
    for (std::size_t i = range->first.index(); i <= range->last.index(); ++i) stage.ops.emplace_back(i);
  }
  if (stage.ops.empty()) throw object.error("ops", "there are none: the stage would do nothing");
  // "name" is there for people; it follows from the ops.
  if (object.string("name") != stage_name(graph, stage))
    throw object.error("name", "\"" + object.string("name") + "\" does not fit the ops, which are \"" +
                                   stage_name(graph, stage) + "\"");
  object.reject_unknown();
  return stage;
}

CutEdge read_edge(const JsonObject& object, const Names<TensorId>& tensors, std::size_t num_stages) {
  const auto last_stage = static_cast<std::int64_t>(num_stages) - 1;
  CutEdge edge;
  edge.tensor = tensors.require(object, "tensor", object.string("tensor"));
  edge.from = StageId(static_cast<std::size_t>(object.integer("from", 0, last_stage)));
  edge.to = StageId(static_cast<std::size_t>(object.integer("to", 0, last_stage)));
  edge.activation = parsed(object, "activation", parse_codec);
  edge.gradient = parsed(object, "gradient", parse_codec);
  object.reject_unknown();
  return edge;
}

void read_request(Schedule& schedule, const JsonObject& root) {
  schedule.model = root.string("model");
  schedule.model_options = read_model_options(root.object("model_options"));
  schedule.platform = root.string("platform");
  schedule.platform_devices = static_cast<std::size_t>(root.integer("platform_devices", 0, largest));
  schedule.platform_bandwidth = parsed(root, "platform_bandwidth", [](const std::string& text) {
    if (!text.empty()) parse_bandwidth(text);
    return text;
  });
  schedule.policy =
      parsed(root, "policy", [](const std::string& name) { return row_named(policy_table(), name).name; });
  schedule.order = parsed(root, "order", [](const std::string& name) { return parse_order(name).name; });
  schedule.compress =
      parsed(root, "compress", [](const std::string& text) { return to_string(parse_compression_pair(text)); });
  schedule.micro_batches = static_cast<int>(root.integer("micro_batches", 1, max_micro_batches));
  schedule.replicas = static_cast<int>(root.integer("replicas", 1, max_micro_batches));
  schedule.collective =
      parsed(root, "collective", [](const std::string& name) { return std::string(collective_named(name)); });
  schedule.training = read_training(root.object("training"));
  schedule.model_options.dtype = compute_dtype(schedule.training.precision);
  schedule.seed = static_cast<std::uint64_t>(root.integer("seed", 0, largest));
  schedule.predicted_iteration = Seconds(root.real("predicted_iteration_s"));
  for (const char* key : {"lower_bound_s", "gap"})  // what `plan --json` says besides
    if (root.has(key)) root.real(key);
  if (schedule.predicted_iteration < Seconds(0))
    throw root.error("predicted_iteration_s", format_ratio(schedule.predicted_iteration.value) + " is negative");
}

/// Names of models and platforms stand in the schedule file, so an error in one names that file too.
Problem load_problem_of(const Schedule& schedule, const std::string& file) {
  return load_problem({.model = schedule.model,
                       .platform = schedule.platform,
                       .model_options = schedule.model_options,
                       .devices = schedule.platform_devices,
                       .bandwidth = schedule.platform_bandwidth,
                       .training = schedule.training,
                       .model_place = file,
                       .platform_place = file});
}

}  // namespace

std::string write_schedule(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  const ordered_json root = {
      {"model", schedule.model},
      {"model_options",
       {{"micro_batch", schedule.model_options.micro_batch},
        {"sequence_length", schedule.model_options.sequence_length},
        {"image_size", schedule.model_options.image_size}}},
      {"platform", schedule.platform},
      {"platform_devices", schedule.platform_devices},
      {"platform_bandwidth", schedule.platform_bandwidth},
      {"policy", schedule.policy},
      {"order", schedule.order},
      {"compress", schedule.compress},
      {"micro_batches", schedule.micro_batches},
      {"replicas", schedule.replicas},
      {"collective", schedule.collective},
      {"training",
       {{"optimizer", name_of(schedule.training.optimizer)},
        {"precision", name_of(schedule.training.precision)},
        {"recompute", schedule.training.recompute}}},
      {"seed", schedule.seed},
      {"predicted_iteration_s", schedule.predicted_iteration.value},
      {"stages", stages_of(schedule, graph, platform)},
      {"edges", edges_of(schedule, graph)},
  };
  return lines(root);
}

Plan load_plan(const std::string& file) {
  const JsonObject root = load_json(file);
  Schedule schedule;
  read_request(schedule, root);
  const std::vector<JsonObject> stages = root.objects("stages"), edges = root.objects("edges");
  root.reject_unknown();
  if (stages.empty()) throw root.error("stages", "there are none: nothing would run");

  Problem problem = load_problem_of(schedule, file);
  const Names<OpId> ops(problem.graph.ops);
  const Names<DeviceId> devices(problem.platform.devices);
  const Names<TensorId> tensors(problem.graph.tensors);
  for (const JsonObject& stage : stages) schedule.stages.push_back(read_stage(stage, problem.graph, ops, devices));
  for (const JsonObject& edge : edges) schedule.edges.push_back(read_edge(edge, tensors, schedule.stages.size()));
  validate(schedule, problem.graph, problem.platform, file);
  const auto costs = stage_costs(schedule, problem.graph, problem.costs, problem.platform);
  require_memory(schedule, problem.graph, costs, problem.platform);
  schedule.predicted_iteration = predicted_iteration(schedule, problem);
  return {std::move(problem), std::move(schedule)};
}

}  // namespace fusion
