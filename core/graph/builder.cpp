#include "core/graph/builder.h"

#include <algorithm>
#include <stdexcept>

#include "core/base/error.h"
#include "core/graph/ops.h"

namespace fusion {
namespace {

[[noreturn]] void refuse(const OpRow& row, const std::string& message) {
  throw std::invalid_argument("[" + std::string(row.name) + "] " + message);
}

std::string_view type_name(const AttributeValue& value) {
  constexpr std::string_view names[] = {"an integer", "a number", "true or false", "a list of integers"};
  return names[value.index()];
}

/// Attributes reach shape rules as small numbers, so that their sums and products of two stay inside 63 bits.
void require_small(const OpRow& row, const Attribute& attribute) {
  const auto small = [](std::int64_t v) { return v >= -max_elements && v <= max_elements; };
  if (const auto* v = std::get_if<std::int64_t>(&attribute.value); v != nullptr && !small(*v))
    refuse(row, attribute.name + " is " + std::to_string(*v) + ", beyond 2^40");
  if (const auto* v = std::get_if<std::vector<std::int64_t>>(&attribute.value);
      v != nullptr && !std::ranges::all_of(*v, small))
    refuse(row, attribute.name + " is " + to_string(*v) + ", beyond 2^40");
  if (const auto* v = std::get_if<double>(&attribute.value); v != nullptr && !(*v > -1e300 && *v < 1e300))
    refuse(row, attribute.name + " is " + std::to_string(*v) + ", a finite number is wanted");
}

void require_known(const OpRow& row, const std::vector<Attribute>& given) {
  std::vector<std::string_view> valid;
  for (const AttributeSpec& spec : row.attributes) valid.push_back(spec.name);
  for (auto it = given.begin(); it != given.end(); ++it) {
    if (std::ranges::find(valid, it->name) == valid.end())
      refuse(row, valid.empty() ? "takes no attributes, \"" + it->name + "\" is given"
                                : "attribute " + unknown_name(it->name, valid));
    if (std::find_if(given.begin(), it, [&](const Attribute& a) { return a.name == it->name; }) != it)
      refuse(row, "attribute " + it->name + " is given twice");
  }
}

AttributeValue value_of(const OpRow& row, const AttributeSpec& spec, const std::vector<Attribute>& given) {
  const auto found = std::ranges::find(given, spec.name, &Attribute::name);
  if (found == given.end()) {
    if (spec.required) refuse(row, "attribute " + std::string(spec.name) + " is missing: " + std::string(spec.help));
    return spec.fallback;
  }
  const auto* integer = std::get_if<std::int64_t>(&found->value);
  if (integer != nullptr && std::holds_alternative<double>(spec.fallback)) return static_cast<double>(*integer);
  if (found->value.index() != spec.fallback.index())
    refuse(row, "attribute " + std::string(spec.name) + " is " + std::string(type_name(found->value)) + ", " +
                    std::string(type_name(spec.fallback)) + " is wanted");
  return found->value;
}

/// All attributes of the row in its order, defaults filled in.
std::vector<Attribute> complete(const OpRow& row, const std::vector<Attribute>& given) {
  require_known(row, given);
  std::vector<Attribute> all;
  for (const AttributeSpec& spec : row.attributes) {
    all.push_back({std::string(spec.name), value_of(row, spec, given)});
    require_small(row, all.back());
  }
  return all;
}

void require_input_count(const OpRow& row, std::size_t count) {
  const auto least = static_cast<std::size_t>(row.min_inputs), most = static_cast<std::size_t>(row.max_inputs);
  if (count >= least && (row.max_inputs < 0 || count <= most)) return;
  const std::string wanted = row.max_inputs < 0 ? "at least " + std::to_string(least) : std::to_string(least);
  refuse(row, "has " + std::to_string(count) + " inputs, " + wanted + (least == 1 ? " is wanted" : " are wanted"));
}

/// Rows that take token ids, labels, or what they are cut from.
bool takes_integers(OpKind kind) {
  return kind == OpKind::embedding || kind == OpKind::cross_entropy || kind == OpKind::reshape ||
         kind == OpKind::concat || kind == OpKind::split;
}

void require_floating(const OpRow& row, const OpView& view) {
  for (const Tensor* input : view.inputs)
    if (input->dtype == DType::int64 && !takes_integers(row.kind))
      refuse(row, "input \"" + input->name + "\" holds integers (token ids or labels), activations are wanted");
}

/// "x", or "x.0", "x.1", … where there are several.
std::vector<std::string> output_names(const Op& op, std::size_t count) {
  if (count == 1) return {op.name};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(op.name + "." + std::to_string(i));
  return names;
}

void require_ties_known(const OpRow& row, const std::vector<ParameterSpec>& specs,
                        const std::vector<GraphBuilder::Tie>& tied) {
  std::vector<std::string_view> suffixes;
  for (const ParameterSpec& spec : specs) suffixes.push_back(spec.suffix);
  for (const auto& tie : tied)
    if (std::ranges::find(suffixes, tie.suffix) == suffixes.end())
      refuse(row, suffixes.empty() ? "has no parameters to tie" : "parameter " + unknown_name(tie.suffix, suffixes));
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, std::int64_t micro_batch, DType dtype, std::string file)
    : file_(file.empty() ? name : std::move(file)) {
  check(dtype != DType::int64, "a network computes in a floating-point type");
  if (micro_batch < 1 || micro_batch > max_elements)
    throw InputError(file_, "micro_batch",
                     std::to_string(micro_batch) + " samples are no micro-batch; 1 or more are wanted");
  graph_.name = std::move(name);
  graph_.micro_batch = micro_batch;
  graph_.dtype = dtype;
}

void GraphBuilder::block(std::string label) { block_ = std::move(label); }

std::vector<TensorId> GraphBuilder::add(OpKind kind, std::string name, std::vector<TensorId> inputs,
                                        std::vector<Attribute> attributes, const std::vector<Tie>& tied) {
  try {
    return append(kind, name, std::move(inputs), std::move(attributes), tied);
  } catch (const std::invalid_argument& error) {
    throw InputError(file_, name, error.what());
  }
}

std::vector<TensorId> GraphBuilder::append(OpKind kind, std::string name, std::vector<TensorId> inputs,
                                           std::vector<Attribute> attributes, const std::vector<Tie>& tied) {
  const OpRow& row = row_of(kind);
  if (name.empty()) refuse(row, "an op needs a name");
  if (ops_.contains(name)) refuse(row, "an op named \"" + name + "\" exists already");
  require_input_count(row, inputs.size());

  Op op{std::move(name), kind, block_, std::move(inputs), {}, {}, complete(row, attributes)};
  OpView view{op, {}, {}, {}, graph_.dtype};
  for (const TensorId id : op.inputs) view.inputs.push_back(&tensor(id));
  require_floating(row, view);
  const std::vector<OutputSpec> outputs = row.infer(view);
  if (op.inputs.empty() && (outputs[0].shape.empty() || outputs[0].shape[0] != graph_.micro_batch))
    refuse(row, "shape is " + to_string(outputs[0].shape) + ", its dimension 0 must be the micro-batch, " +
                    std::to_string(graph_.micro_batch));
  return insert(std::move(op), row, outputs, row.parameters(view), tied);
}

std::vector<TensorId> GraphBuilder::insert(Op op, const OpRow& row, const std::vector<OutputSpec>& outputs,
                                           const std::vector<ParameterSpec>& parameters, const std::vector<Tie>& tied) {
  const OpId id(graph_.ops.size());
  const std::vector<std::string> names = output_names(op, outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    num_elements(outputs[i].shape);  // throws for a shape that no machine can hold
    if (tensors_.contains(names[i])) refuse(row, "a tensor named \"" + names[i] + "\" exists already");
  }
  require_ties_known(row, parameters, tied);
  for (const ParameterSpec& spec : parameters) op.parameters.push_back(parameter(op, row, spec, tied));

  for (const TensorId input : op.inputs)
    if (auto& consumers = graph_.tensors[input.index()].consumers; consumers.empty() || consumers.back() != id)
      consumers.push_back(id);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool gradient = outputs[i].dtype != DType::int64 && needs_gradient(op);
    op.outputs.emplace_back(graph_.tensors.size());
    tensors_.emplace(names[i], op.outputs.back());
    graph_.tensors.push_back({names[i], outputs[i].shape, outputs[i].dtype, id, gradient, {}});
  }
  ops_.emplace(op.name, id);
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().outputs;
}

/// The tied parameter, or a fresh one named after the op.
ParameterId GraphBuilder::parameter(const Op& op, const OpRow& row, const ParameterSpec& spec,
                                    const std::vector<Tie>& tied) {
  const OpId user(graph_.ops.size());
  num_elements(spec.shape);
  const auto tie = std::ranges::find(tied, spec.suffix, &Tie::suffix);
  if (tie == tied.end()) {
    const ParameterId fresh(graph_.parameters.size());
    std::string name = op.name + "." + std::string(spec.suffix);
    if (!parameters_.emplace(name, fresh).second) refuse(row, "a parameter named \"" + name + "\" exists already");
    graph_.parameters.push_back({std::move(name), spec.shape, {user}});
    return fresh;
  }
  const auto found = parameters_.find(tie->parameter);
  if (found == parameters_.end())
    refuse(row, std::string(spec.suffix) + " is tied to parameter " + unknown_name(tie->parameter, parameter_names()));
  Parameter& shared = graph_.parameters[found->second.index()];
  if (shared.shape != spec.shape)
    refuse(row, std::string(spec.suffix) + " must be " + to_string(spec.shape) + ", it is tied to " + shared.name +
                    ", which is " + to_string(shared.shape));
  if (shared.users.back() != user) shared.users.push_back(user);
  return found->second;
}

bool GraphBuilder::needs_gradient(const Op& op) const {
  return !op.parameters.empty() ||
         std::ranges::any_of(op.inputs, [&](TensorId id) { return tensor(id).needs_gradient; });
}

const Tensor& GraphBuilder::tensor(TensorId id) const {
  check(id.index() < graph_.tensors.size(), "a tensor of another graph");
  return graph_.tensor(id);
}

std::optional<TensorId> GraphBuilder::find_tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string_view> GraphBuilder::parameter_names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, id] : parameters_) names.push_back(name);
  return names;
}

void GraphBuilder::tokens_per_sample(std::int64_t tokens) { graph_.tokens_per_sample = tokens; }

Graph GraphBuilder::finish() && {
  if (graph_.ops.empty()) throw InputError(file_, "", "the graph is empty: it has no ops");
  if (graph_.parameters.empty()) throw InputError(file_, "", "the graph has no parameters: there is nothing to train");
  const OpId last(graph_.ops.size() - 1);
  for (const Tensor& tensor : graph_.tensors) {
    const bool may_end = tensor.producer == last || graph_.op(tensor.producer).kind == OpKind::cross_entropy;
    if (tensor.consumers.empty() && !may_end)
      throw InputError(file_, graph_.op(tensor.producer).name,
                       "nobody reads tensor \"" + tensor.name + "\"; only a loss, or the last op, may end in nothing");
  }
  return std::move(graph_);
}

TensorId GraphBuilder::input(std::string name, Shape shape) {
  return add(OpKind::input, std::move(name), {}, {{"shape", std::move(shape)}})[0];
}

TensorId GraphBuilder::tokens(std::string name, Shape shape) {
  return add(OpKind::input, std::move(name), {}, {{"shape", std::move(shape)}, {"tokens", true}})[0];
}

TensorId GraphBuilder::label(std::string name, Shape shape) {
  return add(OpKind::label, std::move(name), {}, {{"shape", std::move(shape)}})[0];
}

TensorId GraphBuilder::embedding(std::string name, TensorId tokens, std::int64_t rows, std::int64_t features) {
  return unary(OpKind::embedding, std::move(name), tokens, {{"rows", rows}, {"features", features}});
}

TensorId GraphBuilder::linear(std::string name, TensorId x, std::int64_t out_features, bool bias,
                              const std::vector<Tie>& tied) {
  return add(OpKind::linear, std::move(name), {x}, {{"out_features", out_features}, {"bias", bias}}, tied)[0];
}

TensorId GraphBuilder::conv2d(std::string name, TensorId x, std::int64_t out_channels, std::int64_t kernel,
                              std::int64_t stride, std::int64_t padding, bool bias) {
  return unary(
      OpKind::conv2d, std::move(name), x,
      {{"out_channels", out_channels}, {"kernel", kernel}, {"stride", stride}, {"padding", padding}, {"bias", bias}});
}

TensorId GraphBuilder::unary(OpKind kind, std::string name, TensorId x, std::vector<Attribute> attributes) {
  return add(kind, std::move(name), {x}, std::move(attributes))[0];
}

TensorId GraphBuilder::add(std::string name, TensorId a, TensorId b) {
  return add(OpKind::add, std::move(name), {a, b})[0];
}

TensorId GraphBuilder::mul(std::string name, TensorId a, TensorId b) {
  return add(OpKind::mul, std::move(name), {a, b})[0];
}

TensorId GraphBuilder::concat(std::string name, std::vector<TensorId> parts, std::int64_t axis) {
  return add(OpKind::concat, std::move(name), std::move(parts), {{"axis", axis}})[0];
}

TensorId GraphBuilder::cross_entropy(std::string name, TensorId logits, TensorId labels) {
  return add(OpKind::cross_entropy, std::move(name), {logits, labels})[0];
}

}  // namespace fusion
