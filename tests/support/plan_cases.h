// Small networks and platforms whose costs a person can add up: shared by the tests of planning.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "core/plan/policies.h"
#include "core/plan/schedule.h"

namespace fusion {

/// x -> l0 -> l1 -> … : linear layers of [rows, features], block label i on layer i. Tensor and op names are equal.
inline Graph chain_graph(std::size_t num_layers, std::int64_t rows = 2, std::int64_t features = 4) {
  GraphBuilder net("chain", rows);
  TensorId x = net.input("x", {rows, features});
  for (std::size_t i = 0; i < num_layers; ++i) {
    net.block(std::to_string(i));
    x = net.linear("l" + std::to_string(i), x, features);
  }
  return std::move(net).finish();
}

/// Token ids through an embedding, `num_layers` linear layers, and a head that shares the embedding's table.
inline Graph tied_graph(std::size_t num_layers, std::int64_t rows = 10, std::int64_t features = 4) {
  GraphBuilder net("tied", 1);
  const TensorId tokens = net.tokens("tokens", {1, 8});
  const TensorId label = net.label("label", {1, 8});
  net.block("embedding");
  TensorId x = net.embedding("wte", tokens, rows, features);
  for (std::size_t i = 0; i < num_layers; ++i) {
    net.block(std::to_string(i));
    x = net.linear("l" + std::to_string(i), x, features);
  }
  net.block("head");
  x = net.linear("head", x, rows, false, {{"weight", "wte.weight"}});
  net.cross_entropy("loss", x, label);
  return std::move(net).finish();
}

/// Every layer adds up one or two random earlier tensors of [rows, 4] before its product: branches of all lengths.
inline Graph branching_graph(std::size_t num_layers, std::uint64_t seed, std::int64_t rows = 2) {
  std::mt19937_64 random(seed);
  GraphBuilder net("branching", rows);
  std::vector<TensorId> made = {net.input("x", {rows, 4})};
  std::vector<bool> read = {true};
  const auto any = [&] { return std::uniform_int_distribution<std::size_t>(0, made.size() - 1)(random); };
  const auto push = [&](TensorId tensor) {
    made.push_back(tensor);
    read.push_back(false);
  };
  push(net.linear("first", made[0], 4));
  for (std::size_t i = 0; i < num_layers; ++i) {
    const std::size_t a = any(), b = any();
    read[a] = read[b] = true;
    const std::string name = std::to_string(i);
    push(net.linear("l" + name, a == b ? made[a] : net.add("a" + name, made[a], made[b]), 4));
  }
  std::size_t loose = 0;
  TensorId sum = made.back();  // what nobody has read ends in one sum
  for (std::size_t i = 0; i + 1 < made.size(); ++i)
    if (!read[i]) sum = net.add("sum" + std::to_string(loose++), sum, made[i]);
  return std::move(net).finish();
}

/// Op i (in Graph::ops) takes forward[i] FLOPs forward and backward[i] backward, half for each gradient; nothing else.
inline Costs flop_costs(const std::vector<double>& forward, const std::vector<double>& backward) {
  Costs costs;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    OpCosts op;
    op.forward = Flops(forward[i]);
    op.input_gradient = op.weight_gradient = Flops(backward[i] / 2);
    costs.ops.push_back(op);
  }
  return costs;
}

/// A device per speed (FLOP/s, all of it sustained), one to a host, hosts joined by their own shared NICs "d0.out",
/// "d0.in" of `bandwidth`; the latency is on the way out. Memory is fast and large unless a test says otherwise.
inline Platform star_platform(const std::vector<double>& speeds, BytesPerSecond bandwidth, Seconds latency = {}) {
  Platform platform;
  platform.name = "star";
  platform.sites.push_back({.name = "site", .hosts = {}, .uplink = {}});
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const std::string name = "d" + std::to_string(i);
    const FlopsPerSecond speed(speeds[i]);
    GpuType gpu{.name = "gpu" + name, .peak_fp32 = speed, .peak_fp16 = speed, .peak_bf16 = speed, .source = "test"};
    gpu.memory = Bytes(std::int64_t{1} << 40);
    gpu.memory_bandwidth = BytesPerSecond(1e18);
    gpu.sustained_flops = gpu.sustained_bandwidth = 1;
    platform.gpus.push_back(gpu);
    platform.links.push_back({name + ".out", bandwidth, latency, true});
    platform.links.push_back({name + ".in", bandwidth, Seconds(0), true});
    platform.hosts.push_back({name, SiteId(0), {DeviceId(i)}, LinkPair{LinkId(2 * i), LinkId(2 * i + 1)}});
    platform.sites[0].hosts.emplace_back(i);
    platform.devices.push_back({name, GpuId(i), HostId(i)});
    platform.buses.emplace_back();
  }
  return platform;
}

/// Ops [from, to) of the graph on a device.
inline Stage stage_of(std::size_t device, std::size_t from, std::size_t to) {
  Stage stage{.device = DeviceId(device), .replica = 0, .ops = {}};
  for (std::size_t i = from; i < to; ++i) stage.ops.emplace_back(i);
  return stage;
}

/// A schedule of the given stages with its cut edges.
inline Schedule schedule_of(const Graph& graph, std::vector<Stage> stages, int micro_batches = 1) {
  Schedule schedule;
  schedule.policy = "equal-number";
  schedule.order = "1f1b";
  schedule.compress = "none";
  schedule.micro_batches = micro_batches;
  schedule.stages = std::move(stages);
  schedule.edges = cut_edges(graph, schedule.stages);
  return schedule;
}

}  // namespace fusion
