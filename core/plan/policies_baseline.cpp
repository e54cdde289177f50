#include "core/plan/policies_baseline.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/plan/linear_order.h"

namespace fusion {
namespace {

/// A device runs at least one unit, so there are never more parts than units.
std::vector<DeviceId> first_devices(const PolicyInput& input, std::size_t num_units) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < std::min(input.platform.devices.size(), num_units); ++d) devices.emplace_back(d);
  return devices;
}

double flops_of(const Unit& unit, const Costs& costs) {
  double sum = 0;
  for (const OpId op : unit.ops) {
    const OpCosts& cost = costs.ops[op.index()];
    sum += (cost.forward + cost.input_gradient + cost.weight_gradient).value;
  }
  return sum;
}

double speed_of(const PolicyInput& input, DeviceId device) {
  const GpuType& gpu = input.platform.gpu_of(device);
  return gpu.sustained_flops * gpu.peak(compute_dtype(input.request.training.precision)).value;
}

/// Running sums with a leading zero.
template <class Range, class Value>
std::vector<double> prefix_sums(const Range& range, Value value) {
  std::vector<double> sums{0};
  for (const auto& each : range) sums.push_back(sums.back() + value(each));
  return sums;
}

}  // namespace

std::vector<std::size_t> equal_bounds(std::size_t num_units, std::size_t num_parts) {
  std::vector<std::size_t> bounds{0};
  for (std::size_t part = 0; part < num_parts; ++part)
    bounds.push_back(bounds.back() + num_units / num_parts + (part < num_units % num_parts ? 1 : 0));
  return bounds;
}

std::vector<Stage> equal_number(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  const std::vector<DeviceId> devices = first_devices(input, units.size());
  return cut_line(units, equal_bounds(units.size(), devices.size()), devices);
}

std::vector<Stage> equal_compute(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  const std::vector<DeviceId> devices = first_devices(input, units.size());
  const std::vector<double> work = prefix_sums(units, [&](const Unit& unit) { return flops_of(unit, input.costs); });
  const std::vector<double> speed = prefix_sums(devices, [&](DeviceId id) { return speed_of(input, id); });
  std::vector<std::size_t> bounds{0};
  for (std::size_t d = 1; d < devices.size(); ++d) {
    const double target = work.back() * speed[d] / speed.back();
    // The nearer of the two cuts around the target, leaving a unit for this device and for each that follows.
    auto cut = static_cast<std::size_t>(std::ranges::lower_bound(work, target) - work.begin());
    if (cut > 0 && target - work[cut - 1] < work[cut] - target) --cut;
    bounds.push_back(std::clamp(cut, bounds.back() + 1, units.size() - (devices.size() - d)));
  }
  bounds.push_back(units.size());
  return cut_line(units, bounds, devices);
}

std::vector<Stage> random_placement(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  std::mt19937_64 random(input.request.seed);
  std::vector<DeviceId> devices(input.platform.devices.size());
  for (std::size_t d = 0; d < devices.size(); ++d) devices[d] = DeviceId(d);
  std::ranges::shuffle(devices, random);
  devices.resize(std::min(devices.size(), units.size()));

  std::vector<std::size_t> inner(units.size() - 1);
  std::iota(inner.begin(), inner.end(), std::size_t{1});
  std::vector<std::size_t> bounds{0};
  std::ranges::sample(inner, std::back_inserter(bounds), static_cast<std::ptrdiff_t>(devices.size()) - 1, random);
  bounds.push_back(units.size());
  return cut_line(units, bounds, devices);
}

}  // namespace fusion
