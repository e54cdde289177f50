#include "core/plan/virtual_stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/platform/platform.h"
#include "core/program/order_file.h"

namespace fusion {
namespace {

/// The ops of all shares one after the other; those without inputs (data, labels) stand before their first reader.
std::vector<OpId> line_of(const Graph& graph, const std::vector<Stage>& shares) {
  const auto reads_nothing = [&](OpId op) { return graph.op(op).inputs.empty(); };
  std::vector<bool> placed(graph.ops.size());
  std::vector<OpId> line;
  const auto place = [&](OpId op) {
    if (!placed[op.index()]) line.push_back(op);
    placed[op.index()] = true;
  };
  for (const Stage& share : shares)
    for (const OpId op : share.ops) {
      if (reads_nothing(op)) continue;
      for (const TensorId input : graph.op(op).inputs)
        if (const OpId producer = graph.tensor(input).producer; reads_nothing(producer)) place(producer);
      place(op);
    }
  for (const Stage& share : shares) std::ranges::for_each(share.ops, place);  // what nobody reads
  return line;
}

/// By cut: bytes of the tensors made before it and read after it.
std::vector<std::int64_t> crossing_bytes(const Graph& graph, const std::vector<OpId>& line) {
  std::vector<std::size_t> place(graph.ops.size());
  for (std::size_t i = 0; i < line.size(); ++i) place[line[i].index()] = i;
  std::vector<std::int64_t> change(line.size() + 1);
  for (const Tensor& tensor : graph.tensors) {
    std::size_t last = place[tensor.producer.index()];
    for (const OpId reader : tensor.consumers) last = std::max(last, place[reader.index()]);
    change[place[tensor.producer.index()] + 1] += bytes_of(tensor).value;
    change[last + 1] -= last + 1 < change.size() ? bytes_of(tensor).value : 0;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

/// Work before each cut of a line, by the clock of one GPU: only shares of it count.
std::vector<double> work_before(const std::vector<OpId>& line, const Graph& graph, const Costs& costs,
                                const GpuType& gpu, DType dtype) {
  std::vector<double> sums = {0};
  for (const OpId op : line) sums.push_back(sums.back() + op_times(graph, costs, op, gpu, dtype).total().value);
  return sums;
}

/// Between two stages: the work that is wanted before the cut, and what a byte that crosses it costs.
struct Boundary {
  double wanted_s, s_per_byte;
};

/// Ascending cuts, 0 and the end included, with the least sum of what each is off its wanted work and of the time that
/// its tensors and their gradients take: all seconds per micro-batch. By dynamic programming: O(cuts x boundaries).
std::vector<std::size_t> best_cuts(const std::vector<Boundary>& boundaries, const std::vector<double>& before_s,
                                   const std::vector<std::int64_t>& bytes) {
  const std::size_t end = before_s.size() - 1, spare = end - boundaries.size();
  std::vector<double> least(spare, 0);  // by cut - k of boundary k, which has k ops before it at least
  std::vector<std::vector<std::uint32_t>> chosen;
  for (const Boundary& boundary : boundaries) {
    std::uint32_t best = 0;  // of the boundary before, among those at least one op earlier
    chosen.emplace_back(spare);
    std::vector<double> next(spare);
    for (std::uint32_t i = 0; i < spare; ++i) {
      if (least[i] < least[best]) best = i;
      const std::size_t cut = chosen.size() + i;
      next[i] = least[best] + std::abs(before_s[cut] - boundary.wanted_s) +
                2 * boundary.s_per_byte * static_cast<double>(bytes[cut]);
      chosen.back()[i] = best;
    }
    least = std::move(next);
  }
  std::vector<std::size_t> cuts = {end};
  auto i = static_cast<std::uint32_t>(std::ranges::min_element(least) - least.begin());
  for (std::size_t k = boundaries.size(); k > 0; --k) {
    cuts.push_back(k + i);
    i = chosen[k - 1][i];
  }
  cuts.push_back(0);
  std::ranges::reverse(cuts);
  return cuts;
}

/// 0 between stages of one device.
double s_per_byte(const Platform& platform, DeviceId from, DeviceId to) {
  return from == to ? 0 : 1 / route(platform, from, to).bandwidth.value;
}

}  // namespace

std::vector<Stage> with_chunks(const Order& order, std::vector<Stage> shares, const Training& training,
                               const Graph& graph, const Costs& costs, const Platform& platform) {
  if (order.chunks == 1) return shares;
  const int p = static_cast<int>(shares.size());
  order.require_devices(p);
  const std::size_t num_stages = shares.size() * static_cast<std::size_t>(order.chunks);
  if (graph.ops.size() < num_stages)
    throw Infeasible(order.name + " cuts the network into " + std::to_string(num_stages) + " stages for " +
                     std::to_string(p) + " devices, and it has " + std::to_string(graph.ops.size()) +
                     " ops; what would help: fewer --devices, an order with fewer stages per device");
  const std::vector<OpId> line = line_of(graph, shares);
  const std::vector<std::int64_t> bytes = crossing_bytes(graph, line);
  const GpuType& gpu = platform.gpu_of(shares.front().device);
  const std::vector<double> before = work_before(line, graph, costs, gpu, compute_dtype(training.precision));

  std::vector<double> work;  // of a stage of each device
  for (const Stage& share : shares)
    work.push_back(work_before(share.ops, graph, costs, gpu, compute_dtype(training.precision)).back() / order.chunks);
  const auto share_of = [&](std::size_t stage) {
    return static_cast<std::size_t>(order.device_of(static_cast<int>(stage), p));
  };
  std::vector<Boundary> boundaries;
  double wanted = 0;
  for (std::size_t s = 0; s + 1 < num_stages; ++s) {
    wanted += work[share_of(s)];
    boundaries.push_back({wanted, s_per_byte(platform, shares[share_of(s)].device, shares[share_of(s + 1)].device)});
  }
  const std::vector<std::size_t> cuts = best_cuts(boundaries, before, bytes);
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < num_stages; ++s) {
    Stage stage = shares[share_of(s)];
    stage.ops.assign(line.begin() + static_cast<std::ptrdiff_t>(cuts[s]),
                     line.begin() + static_cast<std::ptrdiff_t>(cuts[s + 1]));
    std::ranges::sort(stage.ops);
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace fusion
