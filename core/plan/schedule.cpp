#include "core/plan/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/platform/platform.h"
#include "core/program/order.h"

namespace fusion {
namespace {

auto place_of(const CutEdge& edge) { return std::tie(edge.from, edge.to, edge.tensor); }

/// Which stage runs each op; nothing where none does.
using StageOf = std::vector<std::optional<StageId>>;

StageOf stage_of_ops(const Graph& graph, const std::vector<Stage>& stages, StageRange pipeline) {
  StageOf stage_of(graph.ops.size());
  for (std::size_t s = pipeline.first; s < pipeline.last; ++s)
    for (const OpId op : stages[s].ops) stage_of[op.index()] = StageId(s);
  return stage_of;
}

/// One check after the other, in the order in which a reader of the file would want to know.
class Validator {
 public:
  Validator(const Schedule& schedule, const Graph& graph, const Platform& platform, const std::string& file)
      : schedule_(schedule), graph_(graph), platform_(platform), file_(file) {}

  void run() {
    settings();
    replicas();
    taken_.resize(platform_.devices.size());
    for (const StageRange& each : pipelines(schedule_.stages)) {
      devices(each);
      cover(each);
      pipeline_order(each);
    }
    edges();
    codecs();
  }

 private:
  static std::string at(std::string_view list, std::size_t i, std::string_view key) {
    return std::string(list) + "[" + std::to_string(i) + "]." + std::string(key);
  }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw InputError(file_, key, message);
  }

  void settings() const {
    if (schedule_.micro_batches < 1 || schedule_.micro_batches > max_micro_batches)
      fail("micro_batches",
           std::to_string(schedule_.micro_batches) + " is not from 1 to " + std::to_string(max_micro_batches));
    require_even_shares(schedule_, file_);
    if (schedule_.stages.empty()) fail("stages", "there are none: nothing would run");
  }

  void replicas() const {
    int expected = 0;
    for (std::size_t s = 0; s < schedule_.stages.size(); ++s) {
      const int replica = schedule_.stages[s].replica;
      if (s > 0 && replica == expected + 1) ++expected;
      if (replica != expected || replica >= schedule_.replicas)
        fail(at("stages", s, "replica"), std::to_string(replica) + " does not fit: the stages of each of " +
                                             std::to_string(schedule_.replicas) +
                                             " replicas stand together, from replica 0 on");
    }
    if (expected + 1 != schedule_.replicas)
      fail("stages", "those of replica " + std::to_string(expected + 1) + " are missing; there are " +
                         std::to_string(schedule_.replicas));
  }

  void devices(StageRange pipeline) {
    const Order order = find_order(schedule_.order, micro_batches_of_each(schedule_));
    const auto chunks = static_cast<std::size_t>(order.chunks);
    if (pipeline.size() % chunks != 0)
      fail("stages", std::to_string(pipeline.size()) + " of them; " + order.name + " runs " + std::to_string(chunks) +
                         " on every device");
    const std::size_t num_devices = pipeline.size() / chunks;
    order.require_devices(static_cast<int>(num_devices));
    for (std::size_t s = pipeline.first; s < pipeline.last; ++s) {
      const Stage& stage = schedule_.stages[s];
      if (stage.device.index() >= platform_.devices.size())
        fail(at("stages", s, "device"), "device " + std::to_string(stage.device.value) + " does not exist; " +
                                            platform_.name + " has " + std::to_string(platform_.devices.size()));
      if (s - pipeline.first >= num_devices) {
        chunk_device(order, s, pipeline.first, num_devices);
        continue;
      }
      auto& taken = taken_[stage.device.index()];
      if (taken)
        fail(at("stages", s, "device"),
             platform_.device(stage.device).name + " already runs stage " + std::to_string(*taken) +
                 (order.chunks == 1 ? "; a device runs one stage"
                                    : "; " + order.name + " has its first " + std::to_string(num_devices) +
                                          " stages on as many devices"));
      taken = s;
    }
  }

  /// Stages beyond the first of each device go where the order has them.
  void chunk_device(const Order& order, std::size_t s, std::size_t first, std::size_t num_devices) const {
    const auto d =
        first + static_cast<std::size_t>(order.device_of(static_cast<int>(s - first), static_cast<int>(num_devices)));
    const DeviceId expected = schedule_.stages[d].device, given = schedule_.stages[s].device;
    if (given != expected)
      fail(at("stages", s, "device"), platform_.device(given).name + " can't run it: " + order.name + " has it on " +
                                          platform_.device(expected).name + ", which runs stage " + std::to_string(d));
  }

  void cover(StageRange pipeline) const {
    StageOf seen(graph_.ops.size());
    for (std::size_t s = pipeline.first; s < pipeline.last; ++s) {
      const auto& ops = schedule_.stages[s].ops;
      const std::string key = at("stages", s, "ops");
      if (ops.empty()) fail(key, "the stage has none; leave its device out instead");
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].index() >= graph_.ops.size())
          fail(key, "op " + std::to_string(ops[i].value) + " does not exist; " + graph_.name + " has " +
                        std::to_string(graph_.ops.size()));
        auto& taken = seen[ops[i].index()];
        if (taken)
          fail(key, "op \"" + graph_.op(ops[i]).name + "\" is in stage " + std::to_string(taken->value) + " already");
        if (i > 0 && ops[i] < ops[i - 1])
          fail(key, "op \"" + graph_.op(ops[i]).name + "\" comes before \"" + graph_.op(ops[i - 1]).name +
                        "\" in the model; keep the model's order");
        taken = StageId(s);
      }
    }
    report_missing(seen);
  }

  void report_missing(const StageOf& seen) const {
    constexpr int shown = 3;
    int missing = 0;
    std::string names;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i]) continue;
      if (++missing <= shown) names += (missing > 1 ? ", \"" : "\"") + graph_.ops[i].name + '"';
    }
    if (missing > 0)
      fail("stages", std::to_string(missing) + (missing == 1 ? " op is" : " ops are") + " in no stage: " + names +
                         (missing > shown ? ", …" : ""));
  }

  /// Stages whose tensors all go forward are convex too: a path that leaves a stage has left it for good.
  void pipeline_order(StageRange pipeline) const {
    const StageOf stage_of = stage_of_ops(graph_, schedule_.stages, pipeline);
    for (const Tensor& tensor : graph_.tensors)
      for (const OpId consumer : tensor.consumers) {
        const StageId from = *stage_of[tensor.producer.index()], to = *stage_of[consumer.index()];
        if (to < from)
          fail(at("stages", from.index(), "ops"), "tensor \"" + tensor.name + "\" would go back from stage " +
                                                      std::to_string(from.value) + " to stage " +
                                                      std::to_string(to.value) + ", which runs \"" +
                                                      graph_.op(consumer).name + "\"; a pipeline only goes forward");
      }
  }

  std::string describe(const CutEdge& edge) const {
    const std::string name = edge.tensor.index() < graph_.tensors.size() ? graph_.tensor(edge.tensor).name : "?";
    return "\"" + name + "\" from stage " + std::to_string(edge.from.value) + " to stage " +
           std::to_string(edge.to.value);
  }

  void edges() const {
    const std::vector<CutEdge> expected = cut_edges(graph_, schedule_.stages);
    const std::vector<CutEdge>& given = schedule_.edges;
    for (std::size_t i = 0; i < std::max(expected.size(), given.size()); ++i) {
      const bool missing = i >= given.size() || (i < expected.size() && place_of(expected[i]) < place_of(given[i]));
      if (missing)
        fail("edges", "the stages cut tensor " + describe(expected[i]) + ", but no edge says how it travels");
      const std::string key = "edges[" + std::to_string(i) + "]";
      if (i > 0 && place_of(given[i]) <= place_of(given[i - 1]))
        fail(key, describe(given[i]) + " is a repetition or out of order; sort edges by from, to and tensor");
      if (i >= expected.size() || place_of(given[i]) < place_of(expected[i]))
        fail(key, "the stages don't cut tensor " + describe(given[i]));
    }
  }

  void codecs() const {
    for (std::size_t i = 0; i < schedule_.edges.size(); ++i) {
      const CutEdge& edge = schedule_.edges[i];
      const Tensor& tensor = graph_.tensor(edge.tensor);
      codec(at("edges", i, "activation"), edge.activation, tensor.dtype != DType::int64, "integers travel as they are");
      codec(at("edges", i, "gradient"), edge.gradient, tensor.needs_gradient, "the tensor has no gradient");
    }
  }

  void codec(const std::string& key, Codec codec, bool allowed, const std::string& why_not) const {
    if (!std::isfinite(codec.ratio) || codec.ratio < 1 || (!row_of(codec.kind).sparse && codec.ratio != 1))
      fail(key, to_string(codec) + " has no valid ratio; it is a number of 1 or above, and 1 for a dense codec");
    if (!allowed && codec != Codec{}) fail(key, to_string(codec) + " can't be used: " + why_not + "; write \"none\"");
  }

  const Schedule& schedule_;
  const Graph& graph_;
  const Platform& platform_;
  const std::string& file_;
  std::vector<std::optional<std::size_t>> taken_;  ///< by device: its first stage
};

}  // namespace

std::size_t devices_used(const Schedule& schedule) {
  std::set<DeviceId> devices;
  for (const Stage& stage : schedule.stages) devices.insert(stage.device);
  return devices.size();
}

std::vector<StageRange> pipelines(const std::vector<Stage>& stages) {
  std::vector<StageRange> all;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s == 0 || stages[s].replica != stages[s - 1].replica) all.push_back({s, s});
    all.back().last = s + 1;
  }
  return all;
}

void require_even_shares(const Schedule& schedule, const std::string& file) {
  if (schedule.replicas < 1)
    throw InputError(file, "replicas", std::to_string(schedule.replicas) + "; there is at least one");
  if (schedule.micro_batches % schedule.replicas == 0) return;
  const int more = (schedule.micro_batches / schedule.replicas + 1) * schedule.replicas;
  throw InputError(file, "micro_batches",
                   std::to_string(schedule.micro_batches) + " can't be shared evenly by " +
                       std::to_string(schedule.replicas) + " replicas; " + std::to_string(more) + " can");
}

std::vector<CutEdge> cut_edges(const Graph& graph, const std::vector<Stage>& stages) {
  std::vector<CutEdge> edges;
  std::vector<StageId> readers;
  for (const StageRange& pipeline : pipelines(stages)) {
    const StageOf stage_of = stage_of_ops(graph, stages, pipeline);
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const Tensor& tensor = graph.tensors[t];
      const auto from = stage_of[tensor.producer.index()];
      readers.clear();
      for (const OpId consumer : tensor.consumers)
        if (const auto to = stage_of[consumer.index()]; from && to && *to != *from) readers.push_back(*to);
      std::ranges::sort(readers);
      const auto repeated = std::ranges::unique(readers);
      readers.erase(repeated.begin(), repeated.end());
      for (const StageId to : readers) edges.push_back({TensorId(t), *from, to, {}, {}});
    }
  }
  std::ranges::sort(edges, [](const CutEdge& a, const CutEdge& b) { return place_of(a) < place_of(b); });
  return edges;
}

void validate(const Schedule& schedule, const Graph& graph, const Platform& platform, const std::string& file) {
  Validator(schedule, graph, platform, file).run();
}

}  // namespace fusion
