#include "core/plan/compression_pair.h"

#include "core/base/error.h"
#include "core/plan/stage_costs.h"

namespace fusion {

CompressionPair parse_compression_pair(std::string_view text) {
  const std::size_t slash = text.find('/');
  CompressionPair pair{parse_compression(text.substr(0, slash)), {}};
  if (slash != std::string_view::npos) pair.gradients = parse_compression(text.substr(slash + 1));
  return pair;
}

std::string to_string(const CompressionPair& pair) {
  return to_string(pair.activations) + (pair.gradients ? "/" + to_string(*pair.gradients) : "");
}

void compress_edges(Schedule& schedule, const CompressionPair& pair, const Graph& graph, const Costs& costs,
                    const Platform& platform) {
  pair.activations.row->apply(schedule, pair.activations.ratio, graph, costs, platform);
  if (!pair.gradients) return;
  Schedule other = schedule;
  pair.gradients->row->apply(other, pair.gradients->ratio, graph, costs, platform);
  for (std::size_t e = 0; e < schedule.edges.size(); ++e) schedule.edges[e].gradient = other.edges[e].gradient;
}

void recompress(Plan& plan, const std::string& compress) {
  const auto& [graph, costs, platform] = plan.problem;
  Schedule& schedule = plan.schedule;
  CompressionPair pair;
  try {
    pair = parse_compression_pair(compress);
  } catch (const std::invalid_argument& fault) {
    throw InputError("", "compress", fault.what());
  }
  schedule.compress = to_string(pair);
  compress_edges(schedule, pair, graph, costs, platform);
  require_memory(schedule, graph, stage_costs(schedule, graph, costs, platform), platform);
  schedule.predicted_iteration = predicted_iteration(schedule, plan.problem);
}

}  // namespace fusion
