// Small random planning problems: chains and branching networks, unequal devices, asymmetric links, tight memory.
#pragma once

#include <random>

#include "core/plan/compression.h"
#include "core/plan/policies.h"
#include "tests/support/plan_cases.h"

namespace fusion {

struct RandomProblem {
  Graph graph;
  Costs costs;
  Platform platform;
  Schedule request;
  Compression compression;
  PolicyInput input() const { return {graph, costs, platform, request, compression}; }
};

struct RandomProblemOptions {
  bool chain = false;
  bool ample_memory = false;
  bool channels_only = false;  ///< no shared links: what chain-optimal looks at is all there is
  std::size_t max_devices = 6;
  std::size_t max_layers = 9;
};

/// Layers of random shapes in a chain.
inline Graph random_chain(std::mt19937_64& random, std::size_t num_layers) {
  const auto features = [&] { return std::uniform_int_distribution<std::int64_t>(4, 64)(random); };
  GraphBuilder net("chain", 2);
  TensorId x = net.input("x", {2, features()});
  for (std::size_t i = 0; i < num_layers; ++i) x = net.linear("l" + std::to_string(i), x, features());
  return std::move(net).finish();
}

/// A device per host and a directed link per pair, as in a measured matrix; or hosts behind shared NICs of unequal
/// rates.
inline Platform random_platform(std::mt19937_64& random, std::size_t num_devices, bool shared) {
  const auto real = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  std::vector<double> speeds;
  for (std::size_t d = 0; d < num_devices; ++d) speeds.push_back(real(0.3, 3));
  Platform platform = star_platform(speeds, BytesPerSecond(1));
  if (shared) {
    for (Link& link : platform.links) link.bandwidth = BytesPerSecond(real(20, 2000));
    return platform;
  }
  platform.links.clear();
  for (Host& host : platform.hosts) host.nic.reset();
  LinkMatrix matrix;
  matrix.level = LinkMatrix::Level::device;
  for (std::size_t from = 0; from < num_devices; ++from)
    for (std::size_t to = 0; to < num_devices; ++to) {
      matrix.entries.emplace_back(LinkId(platform.links.size()));
      platform.links.push_back({std::to_string(from) + ">" + std::to_string(to), BytesPerSecond(real(20, 2000)),
                                Seconds(real(0, 2)), false});
    }
  platform.matrix = std::move(matrix);
  return platform;
}

inline RandomProblem random_problem(std::mt19937_64& random, const RandomProblemOptions& options = {}) {
  const auto real = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  const auto whole = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  RandomProblem problem;
  if (options.chain)
    problem.graph = random_chain(random, whole(2, options.max_layers));
  else
    do problem.graph = branching_graph(whole(2, 5), random());
    while (problem.graph.ops.size() > options.max_layers + 1);
  problem.costs = estimate(problem.graph);
  for (OpCosts& op : problem.costs.ops) {
    op.forward = Flops(real(0.1, 10));
    op.input_gradient = Flops(real(0.1, 10));
    op.weight_gradient = Flops(real(0.1, 10));
  }
  const bool shared = !options.channels_only && whole(0, 1) == 0;
  problem.platform = random_platform(random, whole(1, options.max_devices), shared);
  problem.request = schedule_of(problem.graph, {}, static_cast<int>(whole(1, 8)));
  problem.compression = parse_compression("none");

  // Memory around what an equal share of the network takes, or ample.
  if (!options.ample_memory) {
    const double all = static_cast<double>(num_parameters(problem.graph)) * 16 + 4000;
    for (GpuType& gpu : problem.platform.gpus) gpu.memory = Bytes(static_cast<std::int64_t>(all * real(0.25, 2)));
  }
  return problem;
}

}  // namespace fusion
