#include "core/plan/chain_optimal.h"

#include "core/base/error.h"
#include "core/plan/linear_order.h"
#include "core/plan/op_fence_line.h"
#include "core/plan/partition.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

Direction direction(const Platform& platform, DeviceId from, DeviceId to, double relief) {
  const Route way = route(platform, from, to);
  return {way.latency.value, 1 / (way.bandwidth.value * relief)};
}

}  // namespace

std::vector<Stage> chain_optimal(const PolicyInput& input) {
  const std::vector<Unit> units = linear_order(input.graph);
  const Line line = lay_out(input, units);
  const double relief = pricing_of(input.compression).relief;
  const std::size_t num_stages = std::min(input.platform.devices.size(), units.size());
  const Order order = find_order(input.request.order);

  std::vector<DeviceId> devices;
  std::vector<Seat> seats;
  std::vector<Hop> hops;
  for (std::size_t s = 0; s < num_stages; ++s) {
    const DeviceId device(s);
    const int in_flight =
        order.in_flight({static_cast<int>(num_stages), static_cast<int>(s), input.request.micro_batches});
    devices.push_back(device);
    seats.push_back({input.platform.device(device).gpu.index(),
                     static_cast<double>(input.platform.gpu_of(device).memory.value), static_cast<double>(in_flight)});
    if (s > 0)
      hops.push_back({direction(input.platform, devices[s - 1], device, relief),
                      direction(input.platform, device, devices[s - 1], relief)});
  }
  const auto best = min_bottleneck(line, seats, hops);
  if (!best)
    throw Infeasible(
        "chain-optimal: no cuts give each of the " + std::to_string(num_stages) +
        " devices, in file order, a part that fits its memory; op-fence may reorder them or leave some idle");
  return cut_line(units, best->cuts, devices);
}

}  // namespace fusion
