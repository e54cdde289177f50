#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/base/error.h"
#include "exec/initialize.h"

namespace fusion::exec {
namespace {

std::int64_t num_attentions(const Graph& graph) {
  return std::ranges::count(graph.ops, OpKind::attention, [](const Op& op) { return op.kind; });
}

bool ends_in_residual_sum(const Op& op) {
  constexpr std::string_view projections[] = {"c_proj", "o_proj", "down_proj"};
  return std::ranges::any_of(projections, [&](std::string_view name) { return op.name.ends_with(name); });
}

double he_deviation(const Shape& weight) {
  const auto fan_in = static_cast<double>(num_elements(weight) / weight[0]);
  return std::sqrt(2 / fan_in);
}

double deviation_of(const Graph& graph, const Parameter& parameter, const Op& user) {
  constexpr double gpt2 = 0.02;
  if (user.kind == OpKind::embedding) return gpt2;
  const std::int64_t layers = num_attentions(graph);
  if (user.kind == OpKind::conv2d || layers == 0) return he_deviation(parameter.shape);
  return ends_in_residual_sum(user) ? gpt2 / std::sqrt(2 * static_cast<double>(layers)) : gpt2;
}

/// Sums of twelve 16-bit integers: variance (2^32 - 1) / 12 each, so one unit is 2^-16 deviations.
void fill_near_normal(std::mt19937_64 random, double deviation, std::span<float> values) {
  constexpr int draws = 3, mean = 12 * 65535 / 2;
  for (float& value : values) {
    int sum = 0;
    for (int draw = 0; draw < draws; ++draw)
      for (std::uint64_t bits = random(), i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<int>(bits & 0xffff);
    value = static_cast<float>(deviation * ((sum - mean) / 65536.0));
  }
}

}  // namespace

void initialize_parameter(const Graph& graph, ParameterId id, std::uint64_t seed, std::span<float> values) {
  const Parameter& parameter = graph.parameter(id);
  check(static_cast<std::int64_t>(values.size()) == num_elements(parameter.shape), "values of another parameter");
  const Op& user = graph.op(parameter.users.front());
  const bool is_norm =
      user.kind == OpKind::layer_norm || user.kind == OpKind::rms_norm || user.kind == OpKind::batch_norm;
  if (parameter.name.ends_with(".bias")) {
    std::ranges::fill(values, 0.0F);
  } else if (is_norm) {
    std::ranges::fill(values, 1.0F);
  } else {
    const std::uint64_t mixed = XXH64(parameter.name.data(), parameter.name.size(), seed);
    fill_near_normal(std::mt19937_64(mixed), deviation_of(graph, parameter, user), values);
  }
}

}  // namespace fusion::exec
