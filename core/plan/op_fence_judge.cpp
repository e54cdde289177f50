#include "core/plan/op_fence_judge.h"

#include <algorithm>
#include <tuple>

#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {

Judged judge(const PolicyInput& input, std::vector<Stage> stages) {
  const auto& [graph, costs, platform, request, compression] = input;
  Schedule schedule = request;
  schedule.stages = std::move(stages);
  schedule.edges = cut_edges(graph, schedule.stages);
  compression.row->apply(schedule, compression.ratio, graph, costs, platform);
  const std::vector<StageCosts> each = stage_costs(schedule, graph, costs, platform);

  Judged judged;
  judged.iteration = predict(schedule, graph, each, platform).iteration;
  const Order order = find_order(request.order);
  const int num_stages = static_cast<int>(each.size());
  for (int s = 0; s < num_stages; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const Bytes needed = memory_needed(each[i], order.in_flight({num_stages, s, request.micro_batches}));
    judged.missing += std::max(Bytes(0), needed - platform.gpu_of(schedule.stages[i].device).memory);
  }
  judged.stages = std::move(schedule.stages);
  return judged;
}

bool better(const Judged& a, const Judged& b) {
  const auto rank = [](const Judged& each) { return std::tuple(each.missing, each.iteration, each.stages.size()); };
  return rank(a) < rank(b);
}

}  // namespace fusion
