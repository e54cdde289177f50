#include "exec/profile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <random>

#include "core/base/error.h"
#include "core/graph/ops.h"

namespace fusion::exec {
namespace {

using Clock = std::chrono::steady_clock;

HostTensor noise(const Tensor& tensor, std::mt19937_64& random) {
  if (tensor.dtype == DType::int64)
    return HostTensor::zeros(tensor.shape, DType::int64);  // a token or class of any model
  HostTensor values = HostTensor::zeros(tensor.shape);
  for (float& value : values.floats()) value = static_cast<float>(random() >> 40) / static_cast<float>(1 << 23) - 1;
  return values;
}

Seconds median(std::vector<Seconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// What two ops that take equally long have in common.
std::string signature(const Graph& graph, const Op& op) {
  std::string text = std::to_string(static_cast<int>(op.kind));
  for (const TensorId tensor : op.inputs)
    text += to_string(graph.tensor(tensor).shape) + (graph.tensor(tensor).needs_gradient ? "g" : "-");
  for (const ParameterId p : op.parameters) text += to_string(graph.parameter(p).shape);
  for (const TensorId tensor : op.outputs) text += to_string(graph.tensor(tensor).shape);
  for (const Attribute& attribute : op.attributes)
    text += attribute.name + std::visit(
                                 [](const auto& value) {
                                   if constexpr (requires { std::to_string(value); })
                                     return std::to_string(value);
                                   else
                                     return to_string(value);
                                 },
                                 attribute.value);
  return text;
}

OpProfile measure(const Graph& graph, OpId id, const BackendRow& row, const ProfileOptions& options) {
  constexpr int warm_up = 2;
  const Part part = part_of(graph, {.device = {}, .replica = 0, .ops = {id}});
  ParameterStore store = make_store(graph, part, options.seed);
  const auto backend = row.make(graph, part, store, options.backend);
  std::mt19937_64 random(options.seed);
  Values inputs, gradients;
  for (const TensorId tensor : part.inputs) inputs[tensor] = noise(graph.tensor(tensor), random);
  for (const TensorId tensor : part.outputs)
    if (graph.tensor(tensor).needs_gradient) gradients[tensor] = noise(graph.tensor(tensor), random);
  std::vector<Seconds> forward, backward;
  for (int i = -warm_up; i < options.repeats; ++i) {
    Values own_inputs = inputs, own_gradients = gradients;
    const auto start = Clock::now();
    backend->forward(0, std::move(own_inputs), {options.seed, 0});
    const auto middle = Clock::now();
    backend->backward(0, std::move(own_gradients), 1);
    const auto end = Clock::now();
    if (i < 0) continue;
    forward.emplace_back(std::chrono::duration<double>(middle - start).count());
    backward.emplace_back(std::chrono::duration<double>(end - middle).count());
  }
  const bool differentiates = graph.tensor(graph.op(id).outputs[0]).needs_gradient;
  return {id, median(std::move(forward)), differentiates ? median(std::move(backward)) : Seconds{}};
}

bool computes(const Op& op) { return op.kind != OpKind::input && op.kind != OpKind::label; }

}  // namespace

std::vector<OpProfile> profile_ops(const Graph& graph, const BackendRow& row, const ProfileOptions& options) {
  std::vector<OpProfile> profiles;
  std::map<std::string, OpProfile> known;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!computes(op)) continue;
    const auto [at, first] = known.try_emplace(signature(graph, op));
    if (first) at->second = measure(graph, OpId(i), row, options);
    profiles.push_back(at->second);
    profiles.back().op = OpId(i);
  }
  return profiles;
}

MachineFit fit_of(const Graph& graph, const Costs& costs, const std::vector<OpProfile>& profiles) {
  Flops flops{};
  Bytes bytes{};
  Seconds matrix{}, other{}, quickest{1e9};
  for (const OpProfile& profile : profiles) quickest = std::min(quickest, profile.forward);
  for (const OpProfile& profile : profiles) {
    const OpCosts& cost = costs.ops[profile.op.index()];
    const double passes = profile.backward > Seconds(0) ? 2 : 1;
    const Seconds work = std::max(profile.forward + profile.backward - quickest * passes, Seconds(0));
    if (row_of(graph.op(profile.op).kind).matmul_like) {
      flops += cost.forward + cost.input_gradient + cost.weight_gradient;
      matrix += work;
    } else {
      bytes += cost.forward_bytes + cost.input_gradient_bytes + cost.weight_gradient_bytes;
      other += work;
    }
  }
  check(matrix > Seconds(0) && other > Seconds(0), "a network with matrix products and other ops");
  return {FlopsPerSecond(flops.value / matrix.value), BytesPerSecond(static_cast<double>(bytes.value) / other.value),
          quickest};
}

std::string gpu_entry(const MachineFit& fit, const std::string& name, Bytes memory, const std::string& source) {
  const auto number = [](const char* form, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, form, value);
    return std::string(buffer);
  };
  const std::string flops = number("\"%.4g GFLOP/s\"\n", fit.flops.value / 1e9);
  return "[[gpu]]\nname = \"" + name + "\"\npeak_fp32 = " + flops + "peak_fp16 = " + flops +
         "memory = " + number("\"%.0f MiB\"\n", static_cast<double>(memory.value) / (1 << 20)) +
         "memory_bandwidth = " + number("\"%.4g GB/s\"\n", fit.bandwidth.value / 1e9) +
         "sustained_flops = 1.0\nsustained_bandwidth = 1.0\nlaunch_overhead = " +
         number("\"%.3f us\"\n", fit.overhead.value * 1e6) + "source = \"" + source + "\"\n";
}

}  // namespace fusion::exec
