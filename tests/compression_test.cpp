// Compression of cut edges: the rows, AdaTopK's formula, and that its slack form does as little as it can.
#include "core/plan/compression_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "core/plan/traffic.h"
#include "tests/support/plan_cases.h"

namespace fusion {
namespace {

void apply(const std::string& text, Schedule& schedule, const Graph& graph, const Costs& costs,
           const Platform& platform) {
  compress_edges(schedule, parse_compression_pair(text), graph, costs, platform);
}

Costs nothing_to_compute(const Graph& graph) {
  return flop_costs(std::vector<double>(graph.ops.size(), 0), std::vector<double>(graph.ops.size(), 0));
}

TEST(Compression, TextIsReadBack) {
  for (const char* text :
       {"none", "fp16", "bf16", "int8", "uniform-topk:100", "uniform-topk-raw:3", "adatopk:2.5", "adatopk-slack"})
    EXPECT_EQ(to_string(parse_compression(text)), text);
  EXPECT_EQ(to_string(parse_compression("uniform-topk")), "uniform-topk:100");
  EXPECT_EQ(to_string(parse_compression("adatopk")), "adatopk:100");
  for (const CompressionRow& row : compression_table()) EXPECT_EQ(parse_compression(row.name).row, &row);
}

TEST(Compression, APairIsReadBack) {
  for (const char* text : {"none", "adatopk:2.5", "int8/adatopk:20", "adatopk:4/none", "powersgd/adatopk-slack"})
    EXPECT_EQ(to_string(parse_compression_pair(text)), text);
  for (const char* text : {"int8/", "/int8", "int8/fp16/fp16", "int8/zip"})
    EXPECT_THROW(parse_compression_pair(text), std::invalid_argument) << text;
}

TEST(Compression, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", ":", "zip", "none:2", "fp16:1", "adatopk-slack:3", "adatopk:", "adatopk:0",
                           "adatopk:0.99", "adatopk:-5", "adatopk:nan", "adatopk:inf", "adatopk:1e999", "adatopk:100x",
                           "adatopk:10:10", "adatopk :10", "Adatopk:10", "topk:10"})
    EXPECT_THROW(parse_compression(text), std::invalid_argument) << text;
  const auto message = [](const char* text) -> std::string {
    try {
      parse_compression(text);
    } catch (const std::invalid_argument& fault) {
      return fault.what();
    }
    return "";
  };
  EXPECT_THAT(message("adatop:100"), testing::HasSubstr("did you mean \"adatopk\""));
  EXPECT_THAT(message("adatopk:0.5"),
              testing::HasSubstr("\"0.5\" is not an element ratio; write a number of 1 or above"));
  EXPECT_THAT(message("fp16:2"), testing::HasSubstr("fp16 takes none"));
}

/// tokens alone on d0, the network on d1 and d2: an edge of integers and one of floats.
struct Mixed {
  Graph graph = tied_graph(3);
  Platform platform = star_platform({1, 1, 1}, BytesPerSecond(4));
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 1), stage_of(1, 1, 5), stage_of(2, 5, graph.ops.size())});
};

TEST(Compression, EveryRowLeavesAValidSchedule) {
  for (const CompressionRow& row : compression_table()) {
    Mixed mixed;
    apply(std::string(row.name), mixed.schedule, mixed.graph, nothing_to_compute(mixed.graph), mixed.platform);
    EXPECT_NO_THROW(validate(mixed.schedule, mixed.graph, mixed.platform, "x")) << row.name;
    EXPECT_EQ(mixed.schedule.edges[0].activation, Codec{}) << row.name;  // integers
    EXPECT_EQ(mixed.schedule.edges[0].gradient, Codec{}) << row.name;
  }
}

TEST(Compression, GradientsMayHaveARowOfTheirOwn) {
  Mixed both, activations, gradients;
  const auto run = [](const char* text, Mixed& to) {
    apply(text, to.schedule, to.graph, nothing_to_compute(to.graph), to.platform);
  };
  run("int8/uniform-topk:2", both);
  run("int8", activations);
  run("uniform-topk:2", gradients);
  for (std::size_t e = 0; e < both.schedule.edges.size(); ++e) {
    EXPECT_EQ(both.schedule.edges[e].activation, activations.schedule.edges[e].activation);
    EXPECT_EQ(both.schedule.edges[e].gradient, gradients.schedule.edges[e].gradient);
  }
  EXPECT_EQ(both.schedule.edges.back().activation, Codec{CodecKind::int8});
  EXPECT_EQ(both.schedule.edges.back().gradient, (Codec{CodecKind::topk, 2}));
}

TEST(Compression, DenseAndUniformRowsAreTheSameEverywhere) {
  for (const auto& [text, codec] :
       std::vector<std::pair<std::string, Codec>>{{"none", {}},
                                                  {"fp16", {CodecKind::fp16}},
                                                  {"bf16", {CodecKind::bf16}},
                                                  {"int8", {CodecKind::int8}},
                                                  {"uniform-topk:1", {}},
                                                  {"uniform-topk:2", {CodecKind::topk, 2}},
                                                  {"uniform-topk", {CodecKind::topk, 100}},
                                                  {"uniform-topk-raw", {CodecKind::topk_raw, 100}}}) {
    Mixed mixed;
    mixed.schedule.edges.back().activation = {CodecKind::topk, 7};  // what stood there before does not matter
    apply(text, mixed.schedule, mixed.graph, nothing_to_compute(mixed.graph), mixed.platform);
    EXPECT_EQ(mixed.schedule.edges.back().activation, codec) << text;
    EXPECT_EQ(mixed.schedule.edges.back().gradient, codec) << text;
  }
}

/// Three layers on three devices; the NIC of device i sends and receives at bandwidths[i].
struct Unequal {
  explicit Unequal(std::vector<double> bandwidths) {
    for (std::size_t i = 0; i < 3; ++i)
      platform.links[2 * i].bandwidth = platform.links[2 * i + 1].bandwidth = BytesPerSecond(bandwidths[i]);
  }
  Graph graph = chain_graph(3, 30, 100);  // messages of 3000 elements, 12,000 B
  Platform platform = star_platform({1, 1, 1}, BytesPerSecond(1));
  Schedule schedule = schedule_of(graph, {stage_of(0, 0, 2), stage_of(1, 2, 3), stage_of(2, 3, 4)});

  /// Top-k takes at most these bytes on the wire, and one more element would take more.
  void expect_fills(std::size_t edge, Codec codec, std::int64_t bytes) const {
    const Tensor& tensor = graph.tensor(schedule.edges[edge].tensor);
    const std::int64_t kept = kept_elements(3000, codec.ratio);
    EXPECT_EQ(codec, (Codec{CodecKind::topk, 3000.0 / static_cast<double>(kept)}));
    EXPECT_LE(wire_bytes(tensor, codec), Bytes(bytes));
    EXPECT_GT(wire_bytes(tensor, {CodecKind::topk, 3000.0 / static_cast<double>(kept + 1)}), Bytes(bytes));
  }
};

// Dense times: 12 s at 1000 B/s, 1200 s at 10 B/s (the narrowest link of the route). With ratio 50 the slow edge sends
// 1/50 of its 12,000 B; the fast one would send 100/50 of them, so it stays dense.
TEST(AdaTopK, SlowestEdgeGetsTheRatioAndFastOnesStayDense) {
  Unequal net({1000, 1000, 10});
  apply("adatopk:50", net.schedule, net.graph, nothing_to_compute(net.graph), net.platform);
  EXPECT_EQ(net.schedule.edges[0].activation, Codec{});
  EXPECT_EQ(net.schedule.edges[0].gradient, Codec{});
  net.expect_fills(1, net.schedule.edges[1].activation, 240);
  net.expect_fills(1, net.schedule.edges[1].gradient, 240);
}

// The slowest edge sends 1/100 of its bytes, one 5 times as fast 5/100.
TEST(AdaTopK, VolumeIsInProportionToTheDenseTime) {
  Unequal net({50, 50, 10});
  apply("adatopk:100", net.schedule, net.graph, nothing_to_compute(net.graph), net.platform);
  net.expect_fills(0, net.schedule.edges[0].activation, 600);
  net.expect_fills(1, net.schedule.edges[1].activation, 120);
}

// The two directions of an edge are judged apart: d2 sends slowly, d1 sends fast.
TEST(AdaTopK, DirectionsAreJudgedApart) {
  Unequal net({1000, 1000, 1000});
  net.platform.links[4].bandwidth = BytesPerSecond(1);  // d2.out
  apply("adatopk:50", net.schedule, net.graph, nothing_to_compute(net.graph), net.platform);
  EXPECT_EQ(net.schedule.edges[1].activation, Codec{});
  net.expect_fills(1, net.schedule.edges[1].gradient, 240);
}

// C_e counts the latency: 12 s + 108 s of it is a tenth of 1200 s, a volume ratio of 5.
TEST(AdaTopK, LatencyIsPartOfTheDenseTime) {
  Unequal net({1000, 1000, 10});
  for (Link& link : net.platform.links) link.shared = false;
  net.platform.links[0].latency = Seconds(108);  // d0.out
  apply("adatopk:50", net.schedule, net.graph, nothing_to_compute(net.graph), net.platform);
  net.expect_fills(0, net.schedule.edges[0].activation, 2400);
  EXPECT_EQ(net.schedule.edges[0].gradient, Codec{});
}

TEST(AdaTopK, RatioOneLeavesAllDense) {
  Unequal net({7, 50, 10});
  apply("adatopk:1", net.schedule, net.graph, nothing_to_compute(net.graph), net.platform);
  for (const CutEdge& edge : net.schedule.edges) {
    EXPECT_EQ(edge.activation, Codec{});
    EXPECT_EQ(edge.gradient, Codec{});
  }
}

// --- slack -----------------------------------------------------------------------------------------------------------

Costs equal_compute_costs(const Graph& graph, double per_op) {
  return flop_costs(std::vector<double>(graph.ops.size(), per_op), std::vector<double>(graph.ops.size(), 2 * per_op));
}

// Devices take 3 s (the first 6). Edge 0 at 12,000 B in 6 s at 2000 B/s just fits; edge 1 must shrink to 6000 B at
// 1000 B/s.
TEST(AdaTopKSlack, CompressesAsFarAsComputeIsSlower) {
  Unequal net({2000, 4000, 1000});
  for (Link& link : net.platform.links) link.shared = false;
  apply("adatopk-slack", net.schedule, net.graph, equal_compute_costs(net.graph, 1), net.platform);
  EXPECT_EQ(net.schedule.edges[0].activation, Codec{});
  EXPECT_EQ(net.schedule.edges[0].gradient, Codec{});
  net.expect_fills(1, net.schedule.edges[1].activation, 6000);
  net.expect_fills(1, net.schedule.edges[1].gradient, 6000);
}

TEST(AdaTopKSlack, FastNetworkStaysExact) {
  Unequal net({1e9, 1e9, 1e9});
  apply("adatopk-slack", net.schedule, net.graph, equal_compute_costs(net.graph, 1), net.platform);
  for (const CutEdge& edge : net.schedule.edges) EXPECT_EQ(edge.activation, Codec{});
}

// Nothing to compute: no ratio is enough, and one element is the least that can be sent.
TEST(AdaTopKSlack, HopelessEdgesKeepOneElement) {
  Unequal net({1, 1, 1});
  apply("adatopk-slack", net.schedule, net.graph, equal_compute_costs(net.graph, 1e-9), net.platform);
  for (const CutEdge& edge : net.schedule.edges) EXPECT_EQ(edge.activation.ratio, 3000);
}

Seconds busiest_device(const Schedule& schedule, const Graph& graph, const Costs& costs, const Platform& platform) {
  Seconds busiest;
  for (const StageCosts& each : stage_costs(schedule, graph, costs, platform)) busiest = std::max(busiest, each.pass());
  return busiest;
}

Seconds busiest_resource(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  Seconds busiest;
  for (const Resource& each : traffic(schedule, graph, platform).resources) busiest = std::max(busiest, each.busy());
  return busiest;
}

/// Random branching networks on random stars of shared NICs: no link is busier than the busiest device, and every
/// compressed edge is as little compressed as that allows: with one element more, or dense, some link would be.
TEST(AdaTopKSlack, NoLinkIsTheBottleneckAndNoEdgeCanTakeLess) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> log_rate(4.3, 6.6);
  int compressed = 0, dense = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = branching_graph(14, seed, 20'000);  // so large that a message's header is little of it
    Platform platform = star_platform(std::vector<double>(6, 1), BytesPerSecond(1));
    for (Link& link : platform.links) link.bandwidth = BytesPerSecond(std::pow(10, log_rate(random)) / 3);
    std::vector<Stage> stages = {stage_of(0, 0, 3)};
    for (std::size_t op = 3; op < graph.ops.size(); ++op) {
      if (stages.size() < 6 && random() % 3 == 0) stages.push_back(stage_of(stages.size(), 0, 0));
      stages.back().ops.emplace_back(op);
    }
    Schedule schedule = schedule_of(graph, stages, 3);
    const Costs costs = equal_compute_costs(graph, 0.1);
    apply("adatopk-slack", schedule, graph, costs, platform);
    const Seconds limit = busiest_device(schedule, graph, costs, platform) * (1 + 1e-9);
    ASSERT_LE(busiest_resource(schedule, graph, platform), limit) << seed;

    for (const Message& each : messages(schedule, graph)) {
      Schedule looser = schedule;
      CutEdge& edge = looser.edges[each.edge];
      Codec& codec = each.gradient ? edge.gradient : edge.activation;
      (codec == Codec{} ? dense : compressed)++;
      if (codec == Codec{}) continue;
      const Tensor& tensor = graph.tensor(edge.tensor);
      const std::int64_t n = num_elements(tensor.shape), more = kept_elements(n, codec.ratio) + 1;
      const Codec next{CodecKind::topk, static_cast<double>(n) / static_cast<double>(more)};
      codec = more <= n && wire_bytes(tensor, next) < each.dense ? next : Codec{};
      EXPECT_GT(busiest_resource(looser, graph, platform), limit) << seed;
    }
  }
  EXPECT_GT(compressed, 50);  // the cases exercise both
  EXPECT_GT(dense, 50);
}

}  // namespace
}  // namespace fusion
