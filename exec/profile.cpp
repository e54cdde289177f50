#include "exec/profile.h"

#include <Eigen/QR>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "core/graph/ops.h"
#include "exec/optimizer.h"

namespace fusion::exec {

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

namespace {

using Clock = std::chrono::steady_clock;

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

namespace {

/// One pass of one op: its time is num_launches x overhead + work_s / speed of its kind.
struct Pass {
  std::size_t kind = 0;
  int num_launches = 0;  ///< the gradients of inputs and of weights are one each
  double work_s = 0, time_s = 0;
};

/// Overhead, then 1 / speed by kind, and the sum of squares of the relative errors that they leave.
struct Solution {
  std::vector<double> coefficients;
  double squares = 0;
};

/// Least squares of the relative errors, with columns whose coefficient would be negative taken out one at a time, the
/// worst first (they are 0).
Solution non_negative_fit(const std::vector<Pass>& passes, std::size_t num_kinds) {
  std::vector<Eigen::Index> columns(num_kinds + 1);
  std::iota(columns.begin(), columns.end(), 0);
  Eigen::MatrixXd all =
      Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(passes.size()), static_cast<Eigen::Index>(num_kinds + 1));
  for (Eigen::Index row = 0; const Pass& pass : passes) {
    all(row, 0) = pass.num_launches / pass.time_s;
    all(row++, static_cast<Eigen::Index>(pass.kind + 1)) = pass.work_s / pass.time_s;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(all.rows());
  for (;;) {
    const Eigen::VectorXd found = all(Eigen::all, columns).completeOrthogonalDecomposition().solve(ones);
    Eigen::Index worst = 0;
    if (columns.empty() || found.minCoeff(&worst) >= 0) {
      Solution solution{std::vector<double>(num_kinds + 1), (all(Eigen::all, columns) * found - ones).squaredNorm()};
      for (std::size_t i = 0; i < columns.size(); ++i)
        solution.coefficients[static_cast<std::size_t>(columns[i])] = found[static_cast<Eigen::Index>(i)];
      return solution;
    }
    columns.erase(columns.begin() + worst);
  }
}

GpuType roofline_of(const MachineFit& fit) {
  GpuType gpu;
  gpu.peak_fp32 = fit.flops;
  gpu.memory_bandwidth = fit.bandwidth;
  gpu.sustained_flops = gpu.sustained_bandwidth = 1;
  return gpu;
}

/// Sums of the profile over sums of the work.
MachineFit fit_of_sums(const Graph& graph, const Costs& costs, const std::vector<OpProfile>& profiles) {
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
  return {FlopsPerSecond(flops.value / matrix.value),
          BytesPerSecond(static_cast<double>(bytes.value) / other.value),
          quickest,
          {}};
}

}  // namespace

namespace {

/// The kinds that were measured, sorted.
std::vector<std::string> kinds_of(const Graph& graph, const std::vector<OpProfile>& profiles) {
  std::vector<std::string> kinds;
  for (const OpProfile& profile : profiles) kinds.emplace_back(row_of(graph.op(profile.op).kind).name);
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  return kinds;
}

std::vector<Pass> passes_of(const Graph& graph, const Costs& costs, const std::vector<OpProfile>& profiles,
                            const std::vector<std::string>& kinds, const GpuType& gpu) {
  std::vector<Pass> passes;
  for (const OpProfile& profile : profiles) {
    const OpTimes roof = op_times(costs.ops[profile.op.index()], gpu, DType::fp32);
    const auto kind = static_cast<std::size_t>(std::ranges::lower_bound(kinds, row_of(graph.op(profile.op).kind).name) -
                                               kinds.begin());
    const auto add = [&](std::initializer_list<Seconds> parts, Seconds time) {
      Pass pass{.kind = kind, .time_s = time.value};
      for (const Seconds part : parts) {
        pass.work_s += part.value;
        pass.num_launches += part > Seconds(0);
      }
      if (pass.num_launches > 0 && pass.time_s > 0) passes.push_back(pass);
    };
    add({roof.forward}, profile.forward);
    add({roof.input_gradient, roof.weight_gradient}, profile.backward);
  }
  return passes;
}

}  // namespace

MachineFit fit_of(const Graph& graph, const Costs& costs, const std::vector<OpProfile>& profiles) {
  const MachineFit of_sums = fit_of_sums(graph, costs, profiles);
  const std::vector<std::string> kinds = kinds_of(graph, profiles);
  // Speeds scale both bounds of a kind alike, so what is left to find is where the bounds meet: FLOP/s over bytes/s.
  MachineFit best = of_sums;
  double least = std::numeric_limits<double>::infinity();
  for (int half_octave = -6; half_octave <= 10; ++half_octave) {
    MachineFit fit = of_sums;
    fit.flops = FlopsPerSecond(of_sums.flops.value * std::exp2(0.5 * half_octave));
    const Solution found = non_negative_fit(passes_of(graph, costs, profiles, kinds, roofline_of(fit)), kinds.size());
    if (found.squares >= least) continue;
    least = found.squares;
    fit.overhead = Seconds(found.coefficients[0]);
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (found.coefficients[k + 1] > 0) fit.kinds.push_back({kinds[k], 1 / found.coefficients[k + 1]});
    best = std::move(fit);
  }
  return best;
}

BytesPerSecond profile_update(const Graph& graph, int repeats) {
  std::vector<std::vector<float>> values, gradients;
  std::vector<OptimizerState> states;
  std::int64_t count = 0;
  for (const Parameter& parameter : graph.parameters) {
    const std::int64_t elements = num_elements(parameter.shape);
    count += elements;
    values.emplace_back(static_cast<std::size_t>(elements), 0.5f);
    gradients.emplace_back(static_cast<std::size_t>(elements), 0.25f);
    states.push_back(fresh_state(Optimizer::adam, static_cast<std::size_t>(elements)));
  }
  std::vector<Seconds> times;
  for (int step = 1; step <= repeats + 1; ++step) {
    const auto start = Clock::now();
    for (std::size_t p = 0; p < values.size(); ++p) update({}, step, 1, values[p], gradients[p], states[p]);
    if (step > 1) times.emplace_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return BytesPerSecond(2.0 * static_cast<double>(count * bytes_per_parameter({})) / median(std::move(times)).value);
}

std::string gpu_entry(const MachineFit& fit, BytesPerSecond update, const std::string& name, Bytes memory,
                      const std::string& source) {
  const auto number = [](const char* form, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, form, value);
    return std::string(buffer);
  };
  std::string kinds;
  for (const KindSpeed& kind : fit.kinds)
    kinds += (kinds.empty() ? "kind_speed = { " : ", ") + kind.kind + " = " + number("%.3g", kind.speed);
  if (!kinds.empty()) kinds += " }\n";
  const std::string flops = number("\"%.4g GFLOP/s\"\n", fit.flops.value / 1e9);
  return "[[gpu]]\nname = \"" + name + "\"\npeak_fp32 = " + flops + "peak_fp16 = " + flops +
         "memory = " + number("\"%.0f MiB\"\n", static_cast<double>(memory.value) / (1 << 20)) +
         "memory_bandwidth = " + number("\"%.4g GB/s\"\n", fit.bandwidth.value / 1e9) +
         "sustained_flops = 1.0\nsustained_bandwidth = 1.0\nlaunch_overhead = " +
         number("\"%.3f us\"\n", fit.overhead.value * 1e6) +
         "update_bandwidth = " + number("\"%.4g GB/s\"\n", update.value / 1e9) + kinds + "source = \"" + source +
         "\"\n";
}

}  // namespace fusion::exec
