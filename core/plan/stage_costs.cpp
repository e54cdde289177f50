#include "core/plan/stage_costs.h"

#include <algorithm>
#include <set>
#include <span>

#include "core/base/error.h"
#include "core/plan/traffic.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

/// Ascending, each once.
std::vector<ParameterId> parameters_of(const Stage& stage, const Graph& graph) {
  std::vector<ParameterId> ids;
  for (const OpId op : stage.ops) ids.insert(ids.end(), graph.op(op).parameters.begin(), graph.op(op).parameters.end());
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

/// The memory of parameters and the time of their update, bound by memory: the optimizer reads and writes all of it
/// once.
void set_parameters(StageCosts& costs, const std::vector<ParameterId>& ids, const Training& training,
                    const Graph& graph, const GpuType& gpu) {
  std::int64_t count = 0;
  for (const ParameterId id : ids) count += num_elements(graph.parameter(id).shape);
  costs.parameters = Bytes(count * bytes_per_parameter(training));
  costs.update = 2 * (costs.parameters / update_bandwidth(gpu));
}

/// What the weight gradients of a stage are made of.
Bytes held_for_weights(const Stage& stage, const Graph& graph, const Costs& costs) {
  std::vector<OpId> with_parameters;
  Bytes gradients;
  for (const OpId id : stage.ops) {
    if (graph.op(id).parameters.empty()) continue;
    with_parameters.push_back(id);
    gradients += bytes_of(graph, graph.op(id).outputs);
  }
  const Kept kept = kept_for_backward(graph, costs, with_parameters);
  return bytes_of(graph, kept.tensors) + kept.extra + gradients;
}

/// What a second forward starts from and no other stage sends: the inputs and labels of the stage.
Bytes own_inputs(const Stage& stage, const Graph& graph) {
  Bytes sum;
  for (const OpId id : stage.ops)
    if (graph.op(id).inputs.empty()) sum += bytes_of(graph, graph.op(id).outputs);
  return sum;
}

Seconds passes(double count, Bytes dense, const GpuType& gpu) { return count * (dense / sustained_bandwidth(gpu)); }

struct Demand {
  std::size_t stage = 0;  ///< the first of its device
  Bytes needed{}, available{};
  Bytes excess() const { return needed - available; }
};

std::string advice(const Schedule& schedule) {
  std::string text = "more devices";
  if (schedule.policy != "op-fence") text += ", a policy that minds the memory (op-fence)";
  if (!schedule.training.recompute) text += ", --recompute";
  if (schedule.model_options.micro_batch > 1) text += ", a smaller --micro-batch";
  if (schedule.order != "1f1b") text += ", --order 1f1b";
  return text;
}

}  // namespace

StageCosts compute_costs(const Stage& stage, const Training& training, const Graph& graph, const Costs& costs,
                         const GpuType& gpu) {
  StageCosts sum;
  for (const OpId op : stage.ops) {
    const OpTimes times = op_times(graph, costs, op, gpu, compute_dtype(training.precision));
    sum.forward += times.forward;
    sum.input_gradient += times.input_gradient;
    sum.weight_gradient += times.weight_gradient;
  }
  const Kept kept = kept_for_backward(graph, costs, stage.ops);
  sum.kept = bytes_of(graph, kept.tensors) + kept.extra;
  if (training.recompute) {
    sum.second_forward = sum.forward;
    sum.recompute_extra = sum.kept;
    sum.kept = own_inputs(stage, graph);
  }
  set_parameters(sum, parameters_of(stage, graph), training, graph, gpu);
  return sum;
}

void add_edge_costs(std::vector<StageCosts>& costs, const Schedule& schedule, const Graph& graph,
                    const Platform& platform) {
  const auto gpu = [&](StageId id) -> const GpuType& { return platform.gpu_of(schedule.stages[id.index()].device); };
  if (schedule.training.recompute)
    for (const CutEdge& edge : schedule.edges) costs[edge.to.index()].kept += bytes_of(graph.tensor(edge.tensor));
  for (const Message& each : messages(schedule, graph)) {
    const CutEdge& edge = schedule.edges[each.edge];
    const compress::Passes coding = coding_passes((each.gradient ? edge.gradient : edge.activation).kind);
    const auto codec_time = each.gradient ? &StageCosts::backward_codec : &StageCosts::forward_codec;
    StageCosts& sender = costs[each.from.index()];
    StageCosts& receiver = costs[each.to.index()];
    sender.*codec_time += passes(coding.encode, each.dense, gpu(each.from));
    receiver.*codec_time += passes(coding.decode, each.dense, gpu(each.to));
    sender.buffers += 2 * each.dense;
    receiver.buffers += 2 * each.dense;
  }
}

namespace {

/// A device holds and updates a parameter once, however many of its stages use it: the first of them has it.
void share_tied_parameters(std::vector<StageCosts>& costs, const Schedule& schedule, const Graph& graph,
                           const Platform& platform) {
  std::set<std::pair<DeviceId, ParameterId>> held;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const Stage& stage = schedule.stages[s];
    std::vector<ParameterId> own = parameters_of(stage, graph);
    std::erase_if(own, [&](ParameterId id) { return !held.emplace(stage.device, id).second; });
    set_parameters(costs[s], own, schedule.training, graph, platform.gpu_of(stage.device));
  }
}

}  // namespace

std::vector<StageCosts> stage_costs(const Schedule& schedule, const Graph& graph, const Costs& costs,
                                    const Platform& platform) {
  std::vector<StageCosts> all;
  for (const Stage& stage : schedule.stages)
    all.push_back(compute_costs(stage, schedule.training, graph, costs, platform.gpu_of(stage.device)));
  const Order order = find_order(schedule.order);
  if (order.splits_backward)
    for (std::size_t s = 0; s < all.size(); ++s)
      all[s].held_for_weights = held_for_weights(schedule.stages[s], graph, costs);
  if (order.chunks > 1) share_tied_parameters(all, schedule, graph, platform);
  add_edge_costs(all, schedule, graph, platform);
  return all;
}

Bytes memory_needed(const StageCosts& costs, int in_flight) {
  return costs.parameters + costs.buffers + costs.kept * in_flight + costs.recompute_extra;
}

PassMemory pass_memory(const StageCosts& costs, Phase phase) {
  const Bytes all = costs.kept + costs.recompute_extra;  // of one micro-batch while its backward runs
  switch (phase) {
    case Phase::forward:
      return {costs.kept, {}};
    case Phase::backward:
      return {costs.recompute_extra, all};
    case Phase::input_gradient: {
      const Bytes more = std::max(Bytes(), costs.held_for_weights - all);
      return {costs.recompute_extra + more, all + more - costs.held_for_weights};
    }
    case Phase::weight_gradient:
      return {{}, costs.held_for_weights};
    default:
      check(false, "a phase that holds no activations");
      return {};
  }
}

namespace {

Bytes memory_of_device(const Order& order, const OrderShape& shape, std::span<const StageCosts> pipeline) {
  const auto of_chunk = [&](int chunk) -> const StageCosts& {
    return pipeline[static_cast<std::size_t>(order.stage_of(shape.device, chunk, shape.num_devices))];
  };
  if (order.is_plain()) return memory_needed(of_chunk(0), order.in_flight(shape));
  Bytes fixed, live, peak;
  for (int chunk = 0; chunk < order.chunks; ++chunk) fixed += of_chunk(chunk).parameters + of_chunk(chunk).buffers;
  for (const Slot& slot : order.slots(shape)) {
    const PassMemory pass = pass_memory(of_chunk(slot.chunk), slot.phase);
    live += pass.allocates;
    peak = std::max(peak, live);
    live -= pass.frees;
  }
  return fixed + peak;
}

}  // namespace

std::vector<Bytes> memory_by_device(const Schedule& schedule, const std::vector<StageCosts>& costs) {
  const Order order = find_order(schedule.order);
  std::vector<Bytes> needed;
  for (const StageRange& pipeline : pipelines(schedule.stages)) {
    const int num_devices = static_cast<int>(pipeline.size()) / order.chunks;
    for (int d = 0; d < num_devices; ++d)
      needed.push_back(memory_of_device(order, {num_devices, d, micro_batches_of_each(schedule)},
                                        std::span(costs).subspan(pipeline.first, pipeline.size())));
  }
  return needed;
}

namespace {

/// The first stage of each device that `memory_by_device` speaks of.
std::vector<std::size_t> first_stages(const Schedule& schedule) {
  const auto chunks = static_cast<std::size_t>(find_order(schedule.order).chunks);
  std::vector<std::size_t> first;
  for (const StageRange& pipeline : pipelines(schedule.stages))
    for (std::size_t d = 0; d < pipeline.size() / chunks; ++d) first.push_back(pipeline.first + d);
  return first;
}

/// "stage 3 (blocks 4-5)", or all of a device that has several.
std::string stages_on(DeviceId device, const Schedule& schedule, const Graph& graph) {
  std::string text;
  int count = 0;
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    if (schedule.stages[s].device != device) continue;
    text += (count++ == 0 ? "" : ", ") + std::to_string(s) + " (" + stage_name(graph, schedule.stages[s]) + ")";
  }
  return count == 1 ? "stage " + text + " needs " : "stages " + text + " need ";
}

}  // namespace

void require_memory(const Schedule& schedule, const Graph& graph, const std::vector<StageCosts>& costs,
                    const Platform& platform) {
  const std::vector<Bytes> needed = memory_by_device(schedule, costs);
  const std::vector<std::size_t> first = first_stages(schedule);
  Demand worst;
  int exceeding = 0;
  for (std::size_t d = 0; d < needed.size(); ++d) {
    const Demand demand{first[d], needed[d], platform.gpu_of(schedule.stages[first[d]].device).memory};
    if (demand.excess() <= Bytes(0)) continue;
    if (++exceeding == 1 || demand.excess() > worst.excess()) worst = demand;
  }
  if (exceeding == 0) return;
  const DeviceId device = schedule.stages[worst.stage].device;
  const bool several = needed.size() < costs.size();
  throw Infeasible(stages_on(device, schedule, graph) + format(worst.needed) + ", but " + (several ? "their" : "its") +
                   " device " + platform.device(device).name + " (" + platform.gpu_of(device).name + ") has " +
                   format(worst.available) +
                   (exceeding > 1 ? "; " + std::to_string(exceeding) + " of " + std::to_string(needed.size()) +
                                        (several ? " devices" : " stages") + " don't fit"
                                  : "") +
                   "; what would help: " + advice(schedule));
}

}  // namespace fusion
