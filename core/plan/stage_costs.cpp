#include "core/plan/stage_costs.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/traffic.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

std::int64_t parameters_of(const Stage& stage, const Graph& graph) {
  std::vector<ParameterId> ids;
  for (const OpId op : stage.ops) ids.insert(ids.end(), graph.op(op).parameters.begin(), graph.op(op).parameters.end());
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  std::int64_t count = 0;
  for (auto id = ids.begin(); id != repeated.begin(); ++id) count += num_elements(graph.parameter(*id).shape);
  return count;
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
  std::size_t stage = 0;
  Bytes needed{}, available{};
  Bytes excess() const { return needed - available; }
};

std::string advice(const Schedule& schedule) {
  std::string text = "more devices";
  if (schedule.policy != "op-fence") text += ", a policy that minds the memory (op-fence)";
  if (!schedule.training.recompute) text += ", --recompute";
  if (schedule.model_options.micro_batch > 1) text += ", a smaller --micro-batch";
  if (schedule.order == "gpipe") text += ", --order 1f1b";
  return text;
}

}  // namespace

StageCosts compute_costs(const Stage& stage, const Training& training, const Graph& graph, const Costs& costs,
                         const GpuType& gpu) {
  StageCosts sum;
  for (const OpId op : stage.ops) {
    const OpTimes times = op_times(costs.ops[op.index()], gpu, compute_dtype(training.precision));
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
  sum.parameters = Bytes(parameters_of(stage, graph) * bytes_per_parameter(training));
  // The optimizer reads and writes all of it once, bound by memory.
  sum.update = passes(2, sum.parameters, gpu);
  return sum;
}

void add_edge_costs(std::vector<StageCosts>& costs, const Schedule& schedule, const Graph& graph,
                    const Platform& platform) {
  const auto gpu = [&](StageId id) -> const GpuType& { return platform.gpu_of(schedule.stages[id.index()].device); };
  for (const Message& each : messages(schedule, graph)) {
    const CutEdge& edge = schedule.edges[each.edge];
    const compress::Passes coding = coding_passes((each.gradient ? edge.gradient : edge.activation).kind);
    const auto codec_time = each.gradient ? &StageCosts::backward_codec : &StageCosts::forward_codec;
    StageCosts& sender = costs[each.from.index()];
    StageCosts& receiver = costs[each.to.index()];
    sender.*codec_time += passes(coding.encode, each.dense, gpu(each.from));
    receiver.*codec_time += passes(coding.decode, each.dense, gpu(each.to));
    if (schedule.training.recompute && !each.gradient) receiver.kept += each.dense;
    sender.buffers += 2 * each.dense;
    receiver.buffers += 2 * each.dense;
  }
}

std::vector<StageCosts> stage_costs(const Schedule& schedule, const Graph& graph, const Costs& costs,
                                    const Platform& platform) {
  std::vector<StageCosts> all;
  for (const Stage& stage : schedule.stages)
    all.push_back(compute_costs(stage, schedule.training, graph, costs, platform.gpu_of(stage.device)));
  add_edge_costs(all, schedule, graph, platform);
  return all;
}

Bytes memory_needed(const StageCosts& costs, int in_flight) {
  return costs.parameters + costs.buffers + costs.kept * in_flight + costs.recompute_extra;
}

void require_memory(const Schedule& schedule, const Graph& graph, const std::vector<StageCosts>& costs,
                    const Platform& platform) {
  const int num_stages = static_cast<int>(schedule.stages.size());
  const OrderRow& order = find_order(schedule.order);
  Demand worst;
  int exceeding = 0;
  for (int s = 0; s < num_stages; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const int in_flight = order.in_flight({num_stages, s, schedule.micro_batches});
    const Demand demand{i, memory_needed(costs[i], in_flight), platform.gpu_of(schedule.stages[i].device).memory};
    if (demand.excess() <= Bytes(0)) continue;
    if (++exceeding == 1 || demand.excess() > worst.excess()) worst = demand;
  }
  if (exceeding == 0) return;
  const Stage& stage = schedule.stages[worst.stage];
  throw Infeasible("stage " + std::to_string(worst.stage) + " (" + stage_name(graph, stage) + ") needs " +
                   format(worst.needed) + ", but its device " + platform.device(stage.device).name + " (" +
                   platform.gpu_of(stage.device).name + ") has " + format(worst.available) +
                   (exceeding > 1
                        ? "; " + std::to_string(exceeding) + " of " + std::to_string(num_stages) + " stages don't fit"
                        : "") +
                   "; what would help: " + advice(schedule));
}

}  // namespace fusion
