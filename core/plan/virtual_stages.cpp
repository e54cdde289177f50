#include "core/plan/virtual_stages.h"

#include <algorithm>
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
std::vector<double> work_before(const std::vector<OpId>& line, const Costs& costs, const GpuType& gpu, DType dtype) {
  std::vector<double> sums = {0};
  for (const OpId op : line) sums.push_back(sums.back() + op_times(costs.ops[op.index()], gpu, dtype).total().value);
  return sums;
}

/// The cut in [first, last] that is nearest to `wanted` work, or within a quarter of a stage the one that fewest bytes
/// cross.
std::size_t best_cut(std::size_t first, std::size_t last, double wanted, double stage_work,
                     const std::vector<double>& before, const std::vector<std::int64_t>& bytes) {
  const auto distance = [&](std::size_t cut) { return std::abs(before[cut] - wanted); };
  std::size_t nearest = first;
  for (std::size_t cut = first; cut <= last; ++cut)
    if (distance(cut) < distance(nearest)) nearest = cut;
  std::size_t best = nearest;
  for (std::size_t cut = first; cut <= last; ++cut) {
    if (distance(cut) > stage_work / 4) continue;
    if (bytes[cut] < bytes[best] || (bytes[cut] == bytes[best] && distance(cut) < distance(best))) best = cut;
  }
  return best;
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
  const std::vector<double> before = work_before(line, costs, gpu, compute_dtype(training.precision));

  std::vector<double> work;  // of a stage of each device
  for (const Stage& share : shares)
    work.push_back(work_before(share.ops, costs, gpu, compute_dtype(training.precision)).back() / order.chunks);
  std::vector<Stage> stages;
  double wanted = 0;
  for (std::size_t s = 0, begin = 0; s < num_stages; ++s) {
    const auto device = static_cast<std::size_t>(order.device_of(static_cast<int>(s), p));
    wanted += work[device];
    const std::size_t still_needed = num_stages - s - 1;
    const std::size_t end = still_needed == 0
                                ? line.size()
                                : best_cut(begin + 1, line.size() - still_needed, wanted, work[device], before, bytes);
    Stage stage = shares[device];
    stage.ops.assign(line.begin() + static_cast<std::ptrdiff_t>(begin),
                     line.begin() + static_cast<std::ptrdiff_t>(end));
    std::ranges::sort(stage.ops);
    stages.push_back(std::move(stage));
    begin = end;
  }
  return stages;
}

}  // namespace fusion
