#include "tests/support/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace fusion::exec {
namespace {

std::vector<HostTensor> collected(const Pipeline& pipeline, const std::vector<RankResult>& results,
                                  std::vector<HostTensor> ParameterStore::*which) {
  std::vector<HostTensor> all(pipeline.graph.parameters.size());
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    for (std::size_t p = 0; p < all.size(); ++p) {
      const HostTensor& copy = (results[rank].store.*which)[p];
      if (copy.data.empty()) continue;
      if (!all[p].data.empty()) {
        EXPECT_EQ(copy, all[p]) << "copies of " << pipeline.graph.parameters[p].name << ", rank " << rank;
      }
      all[p] = copy;
    }
  return all;
}

}  // namespace

Pipeline make_pipeline(const Graph& graph, const Cut& cut) {
  Pipeline pipeline{graph, load_platform("lan8"), {}, {}};
  Schedule& schedule = pipeline.schedule;
  schedule.model = graph.name;
  schedule.policy = schedule.platform = "test";
  schedule.order = cut.order;
  schedule.micro_batches = cut.micro_batches;
  schedule.training = cut.training;
  std::vector<std::size_t> ends = cut.first_ops;
  ends.push_back(graph.ops.size());
  schedule.replicas = cut.replicas;
  schedule.collective = cut.collective;
  for (int replica = 0; replica < cut.replicas; ++replica)
    for (std::size_t op = 0, s = 0; s < ends.size(); ++s) {
      Stage stage{DeviceId(schedule.stages.size()), replica, {}};
      for (; op < ends[s]; ++op) stage.ops.emplace_back(op);
      schedule.stages.push_back(std::move(stage));
    }
  schedule.edges = cut_edges(graph, schedule.stages);
  for (CutEdge& edge : schedule.edges)
    if (graph.tensor(edge.tensor).needs_gradient) edge.activation = edge.gradient = cut.codec;
  validate(schedule, graph, pipeline.platform, "test");
  pipeline.program = lower(schedule, graph, estimate(graph), pipeline.platform);
  validate(pipeline.program, pipeline.platform, Sends::buffered, "test");
  return pipeline;
}

std::vector<std::size_t> even_cuts(const Graph& graph, std::size_t stages) {
  std::vector<std::size_t> first_ops;
  for (std::size_t s = 1; s < stages; ++s) first_ops.push_back(graph.ops.size() * s / stages);
  return first_ops;
}

bool brackets_differ(const Graph& graph, const std::vector<std::size_t>& first_ops) {
  const auto stage_of = [&](OpId op) { return std::ranges::upper_bound(first_ops, op.index()) - first_ops.begin(); };
  for (const Tensor& tensor : graph.tensors) {
    if (!tensor.needs_gradient || tensor.consumers.empty()) continue;
    std::map<std::ptrdiff_t, int> reads;
    for (const OpId op : tensor.consumers) ++reads[stage_of(op)];
    reads.erase(stage_of(tensor.producer));
    if (!reads.empty()) reads.erase(std::prev(reads.end()));
    for (const auto& [stage, count] : reads)
      if (count > 1) return true;
  }
  return false;
}

std::vector<RankResult> train(const Pipeline& pipeline, const std::vector<const BackendRow*>& backends,
                              const TrainOptions& options, const LinkShapes& shapes) {
  const auto data = open_data("synthetic", pipeline.graph, options.seed);
  return execute_threads(pipeline.program, pipeline.graph, backends, data.get(), options, shapes);
}

std::vector<RankResult> train(const Pipeline& pipeline, const BackendRow& backend, const TrainOptions& options,
                              const LinkShapes& shapes) {
  return train(pipeline, std::vector(pipeline.program.devices.size(), &backend), options, shapes);
}

std::vector<HostTensor> values_of(const Pipeline& pipeline, const std::vector<RankResult>& results) {
  return collected(pipeline, results, &ParameterStore::values);
}

std::vector<HostTensor> gradients_of(const Pipeline& pipeline, const std::vector<RankResult>& results) {
  return collected(pipeline, results, &ParameterStore::gradients);
}

}  // namespace fusion::exec
