// The policy row: DT-FM's scheduler with one pipeline. Its groups are single devices then, so there is nothing to
// group, and what remains of it is the open-loop TSP over the devices, with equal numbers of layers on each.
#include <algorithm>

#include "core/plan/device_order.h"
#include "core/plan/dt_fm.h"
#include "core/plan/linear_order.h"
#include "core/plan/op_fence_line.h"
#include "core/plan/op_fence_planner.h"
#include "core/plan/policies.h"
#include "core/plan/policies_baseline.h"

namespace fusion {
namespace {

/// The run of `length` places of a path that costs least.
std::vector<std::size_t> cheapest_run(const SquareMatrix& costs, const std::vector<std::size_t>& path,
                                      std::size_t length) {
  std::span<const std::size_t> best = std::span(path).first(length);
  for (std::size_t first = 1; first + length <= path.size(); ++first)
    if (const auto run = std::span(path).subspan(first, length); path_cost(costs, run) < path_cost(costs, best))
      best = run;
  return {best.begin(), best.end()};
}

}  // namespace

std::vector<Stage> dt_fm(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < input.platform.devices.size(); ++d) devices.emplace_back(d);
  const std::size_t num_devices = devices.size();
  const Bytes boundary = typical_message(lay_out(input, units)).activation;
  const DtFmPrices prices = dt_fm_prices(input.platform, std::move(devices), num_devices,
                                         {Bytes(0), Bytes(boundary.value * input.request.micro_batches)});
  std::vector<DeviceId> order;
  const auto path = shortest_open_path(prices.boundary_s);
  for (const std::size_t place : cheapest_run(prices.boundary_s, path, std::min(num_devices, units.size())))
    order.push_back(prices.devices[place]);
  return cut_line(units, equal_bounds(units.size(), order.size()), order);
}

}  // namespace fusion
