// The platforms that ship: their counts, the published numbers they carry, and routes derived by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/platform/import_export.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

constexpr double mbps = 1e6 / 8, gbps = 1e9 / 8;

DeviceId find(const Platform& platform, const std::string& name) {
  const auto found = std::ranges::find(platform.devices, name, &Device::name);
  EXPECT_NE(found, platform.devices.end()) << name;
  return DeviceId(static_cast<std::size_t>(found - platform.devices.begin()));
}

Route route(const Platform& platform, const std::string& from, const std::string& to) {
  return route(platform, find(platform, from), find(platform, to));
}

std::map<std::string, int> gpu_counts(const Platform& platform) {
  std::map<std::string, int> counts;
  for (std::size_t d = 0; d < platform.devices.size(); ++d) ++counts[platform.gpu_of(DeviceId(d)).name];
  return counts;
}

using Counts = std::map<std::string, int>;

TEST(ShippedPlatforms, ListIsComplete) {
  std::map<std::string, std::size_t> devices;
  for (const auto& row : list_platforms()) {
    devices[row.name] = row.num_devices;
    EXPECT_FALSE(row.description.empty()) << row.name;
    EXPECT_EQ(load_platform(row.name).name, row.name);  // a file is named like its platform
  }
  const std::map<std::string, std::size_t> expected = {{"pair", 2},       {"lan4", 4},       {"lan8", 8},
                                                       {"dtfm-1", 64},    {"dtfm-2", 64},    {"dtfm-3", 64},
                                                       {"dtfm-4", 64},    {"dtfm-5", 64},    {"asymmetric-a40", 12},
                                                       {"testbed-1", 24}, {"testbed-2", 24}, {"testbed-3", 48}};
  for (const auto& [name, n] : expected) EXPECT_EQ(devices[name], n) << name;
}

TEST(ShippedPlatforms, CheckFindsNothingWrong) {
  for (const auto& row : list_platforms())
    EXPECT_EQ(describe_platform(load_platform(row.name)).back(), "ok") << row.name;
}

TEST(ShippedPlatforms, EveryPairHasARoute) {
  for (const auto& row : list_platforms()) {
    const Platform p = load_platform(row.name);
    for (std::size_t a = 0; a < p.devices.size(); ++a)
      for (std::size_t b = 0; b < p.devices.size(); ++b) {
        if (a == b) continue;
        const Route way = fusion::route(p, DeviceId(a), DeviceId(b));
        EXPECT_TRUE(std::isfinite(way.bandwidth.value)) << row.name;
      }
  }
}

TEST(ShippedPlatforms, DirectoryCanBeChosen) {
  ASSERT_EQ(::setenv("FUSION_PLATFORMS", "/nowhere", 1), 0);
  EXPECT_EQ(platforms_directory(), "/nowhere");
  EXPECT_THROW(list_platforms(), InputError);
  EXPECT_THROW(find_gpu("RTX 4090"), InputError);
  ::unsetenv("FUSION_PLATFORMS");
  EXPECT_FALSE(list_platforms().empty());
}

/// The TOML blocks of the page that documents the format.
std::vector<std::string> documented_examples() {
  const std::string page = read_text(platforms_directory() / "README.md"), open = "```toml\n", close = "```";
  std::vector<std::string> blocks;
  for (auto at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    blocks.push_back(page.substr(at, page.find(close, at) - at));
  }
  return blocks;
}

TEST(ShippedPlatforms, DocumentedExamplesLoad) {
  const auto blocks = documented_examples();
  ASSERT_EQ(blocks.size(), 3u);
  const std::string path = testing::TempDir() + "documented.toml";
  std::vector<Platform> platforms;
  for (const auto& block : blocks) {
    write_text(path, block);
    platforms.push_back(load_platform(path));
  }
  std::filesystem::remove(path);
  EXPECT_EQ(platforms[0].devices.size(), 9u);
  EXPECT_DOUBLE_EQ(route(platforms[0], "home", "d1.gpu3").bandwidth.value, 20 * mbps);
  EXPECT_EQ(platforms[1].devices.size(), 5001u);
  EXPECT_DOUBLE_EQ(route(platforms[1], "home.0", "lab").latency.value, 20e-3 + 210e-3 + 0.5e-3);
  EXPECT_DOUBLE_EQ(route(platforms[2], "west0", "east3").bandwidth.value, 1.17 * gbps);
}

TEST(ShippedPlatforms, PairAndLansAreWhatTheySay) {
  const Platform pair = load_platform("pair");
  EXPECT_EQ(pair.links.size(), 2u);
  EXPECT_DOUBLE_EQ(route(pair, "a", "b").bandwidth.value, 100 * mbps);
  EXPECT_DOUBLE_EQ(route(pair, "b", "a").latency.value, 10e-3);
  const Platform lan = load_platform("lan8");
  EXPECT_DOUBLE_EQ(route(lan, "node0", "node7").bandwidth.value, gbps);
  EXPECT_DOUBLE_EQ(route(lan, "node0", "node7").latency.value, 0.2e-3);
}

TEST(ShippedPlatforms, TestbedsHoldTheirClusters) {
  EXPECT_EQ(gpu_counts(load_platform("testbed-1")), (Counts{{"RTX 4090", 8}, {"RTX 2080 Ti", 16}}));
  EXPECT_EQ(gpu_counts(load_platform("testbed-2")), (Counts{{"RTX 4090", 8}, {"RTX 3080", 16}}));
  EXPECT_EQ(gpu_counts(load_platform("testbed-3")),
            (Counts{{"RTX 4090", 8}, {"RTX 2080 Ti", 16}, {"RTX 3080", 16}, {"RTX 3090", 8}}));
  for (const char* name : {"testbed-1", "testbed-2", "testbed-3"})
    EXPECT_THAT(load_platform(name).description, testing::HasSubstr("ur own testbed"));
}

TEST(ShippedPlatforms, TestbedRoutesAddUp) {
  const Platform p = load_platform("testbed-3");
  // inside a host of A: PCIe, 5 us out and 5 us in
  EXPECT_NEAR(route(p, "a0.gpu0", "a0.gpu3").latency.value, 10e-6, 1e-15);
  EXPECT_DOUBLE_EQ(route(p, "a0.gpu0", "a0.gpu3").bandwidth.value, 100 * gbps);
  // between hosts of C: 5 us + 0.1 ms + 0.1 ms + 5 us, the 1 Gbps NIC
  EXPECT_NEAR(route(p, "c0.gpu0", "c3.gpu1").latency.value, 0.21e-3, 1e-15);
  EXPECT_DOUBLE_EQ(route(p, "c0.gpu0", "c3.gpu1").bandwidth.value, gbps);
  // A to B: 5 us + 0.05 ms + 2 ms + 4 ms + 0.05 ms + 5 us
  EXPECT_NEAR(route(p, "a1.gpu2", "b3.gpu0").latency.value, 6.11e-3, 1e-15);
  EXPECT_DOUBLE_EQ(route(p, "a1.gpu2", "b3.gpu0").bandwidth.value, gbps);
  // C to A: 5 us + 0.1 ms + 15 ms + 2 ms + 0.05 ms + 5 us, C's 100 Mbps uplink
  EXPECT_NEAR(route(p, "c1.gpu0", "a0.gpu0").latency.value, 17.16e-3, 1e-15);
  EXPECT_DOUBLE_EQ(route(p, "c1.gpu0", "a0.gpu0").bandwidth.value, 100 * mbps);
  // home 0 to A: 10 ms + 2 ms + 0.05 ms + 5 us at the home's 8 Mbps up; back at its 100 Mbps down
  EXPECT_NEAR(route(p, "d0", "a0.gpu0").latency.value, 12.055e-3, 1e-15);
  EXPECT_DOUBLE_EQ(route(p, "d0", "a0.gpu0").bandwidth.value, 8 * mbps);
  EXPECT_DOUBLE_EQ(route(p, "a0.gpu0", "d0").bandwidth.value, 100 * mbps);
  // home to home: the sender's uplink
  EXPECT_NEAR(route(p, "d3", "d7").latency.value, 25e-3 + 45e-3, 1e-15);
  EXPECT_DOUBLE_EQ(route(p, "d3", "d7").bandwidth.value, 20 * mbps);
  const std::array up = {8, 8, 16, 20, 20, 40, 40, 40}, down = {100, 100, 200, 200, 200, 300, 300, 300};
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string home = "d" + std::to_string(i);
    EXPECT_DOUBLE_EQ(route(p, home, "b0.gpu0").bandwidth.value, up[i] * mbps);
    EXPECT_DOUBLE_EQ(route(p, "b0.gpu0", home).bandwidth.value, down[i] * mbps);
    EXPECT_TRUE(p.link(route(p, home, "b0.gpu0").links[0]).shared);
  }
}

TEST(ShippedPlatforms, DtfmCasesCarryThePublishedLinks) {
  const Platform one = load_platform("dtfm-1"), two = load_platform("dtfm-2"), three = load_platform("dtfm-3"),
                 four = load_platform("dtfm-4");
  EXPECT_DOUBLE_EQ(route(one, "node0.gpu0", "node0.gpu7").bandwidth.value, 100 * gbps);
  EXPECT_DOUBLE_EQ(route(one, "node0.gpu0", "node7.gpu7").bandwidth.value, 25 * gbps);
  EXPECT_EQ(route(one, "node0.gpu0", "node7.gpu7").latency, Seconds(0));
  EXPECT_FALSE(one.link(route(one, "node0.gpu0", "node7.gpu7").links[1]).shared);
  EXPECT_DOUBLE_EQ(route(two, "quad7.gpu0", "quad7.gpu3").bandwidth.value, 100 * gbps);
  EXPECT_DOUBLE_EQ(route(two, "quad7.gpu0", "single31").bandwidth.value, 10 * gbps);
  EXPECT_DOUBLE_EQ(route(three, "ohio0", "virginia31").bandwidth.value, 1.12 * gbps);
  EXPECT_DOUBLE_EQ(route(three, "virginia31", "ohio0").latency.value, 11e-3);
  EXPECT_DOUBLE_EQ(route(three, "ohio0", "ohio1").bandwidth.value, 5 * gbps);
  EXPECT_DOUBLE_EQ(route(three, "ohio0", "ohio1").latency.value, 1e-3);
  struct Pair {
    const char *a, *b;
    double ms, rate;
  };
  for (const auto& [a, b, ms, rate] : std::vector<Pair>{{"virginia", "oregon", 67, 1.15},
                                                        {"virginia", "california", 59, 1.05},
                                                        {"virginia", "ohio", 11, 1.12},
                                                        {"oregon", "california", 12, 1.25},
                                                        {"oregon", "ohio", 49, 1.10},
                                                        {"california", "ohio", 52, 1.02},
                                                        {"ohio", "ohio", 5, 2}})
    for (const auto& [from, to] : {std::pair(a, b), {b, a}}) {
      const Route way = route(four, std::string(from) + "0", std::string(to) + "15");
      EXPECT_DOUBLE_EQ(way.bandwidth.value, rate * gbps);
      EXPECT_DOUBLE_EQ(way.latency.value, ms * 1e-3);
    }
  for (const Platform* p : {&one, &two, &three, &four}) EXPECT_EQ(gpu_counts(*p), (Counts{{"V100-16GB", 64}}));
}

TEST(ShippedPlatforms, DtfmWorldWideIsSymmetricAndComplete) {
  const Platform p = load_platform("dtfm-5");
  EXPECT_DOUBLE_EQ(route(p, "oregon0", "tokyo7").bandwidth.value, 0.523 * gbps);
  EXPECT_DOUBLE_EQ(route(p, "oregon0", "tokyo7").latency.value, 96e-3);
  EXPECT_DOUBLE_EQ(route(p, "seoul3", "ireland2").bandwidth.value, 0.335 * gbps);
  EXPECT_DOUBLE_EQ(route(p, "seoul3", "ireland2").latency.value, 228e-3);
  EXPECT_DOUBLE_EQ(route(p, "london0", "london1").bandwidth.value, 2 * gbps);
  EXPECT_DOUBLE_EQ(route(p, "london0", "london1").latency.value, 5e-3);
  for (std::size_t a = 0; a < 64; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const Route there = fusion::route(p, DeviceId(a), DeviceId(b)), back = fusion::route(p, DeviceId(b), DeviceId(a));
      EXPECT_EQ(there.bandwidth, back.bandwidth);
      EXPECT_EQ(there.latency, back.latency);
    }
}

TEST(ShippedPlatforms, AsymmetricLinksKeepTheirDirections) {
  const Platform p = load_platform("asymmetric-a40");
  EXPECT_EQ(gpu_counts(p), (Counts{{"A40", 12}}));
  struct Direction {
    const char *from, *to;
    double rate, ms;
  };
  for (const auto& [from, to, rate, ms] : std::vector<Direction>{{"east", "mid", 3.10, 21.8},
                                                                 {"mid", "east", 3.04, 21.8},
                                                                 {"west", "east", 1.17, 60.2},
                                                                 {"west", "mid", 1.78, 39.7},
                                                                 {"east", "west", 0.15, 60.2},
                                                                 {"mid", "west", 0.16, 39.7}}) {
    const Route way = route(p, std::string(from) + "0", std::string(to) + "3");
    EXPECT_DOUBLE_EQ(way.bandwidth.value, rate * gbps) << from << ">" << to;
    EXPECT_DOUBLE_EQ(way.latency.value, ms * 1e-3) << from << ">" << to;
  }
}

// The cost model of DT-FM (arXiv 2206.01288) in closed form, on 8 x 8 devices.
constexpr Bytes data_parallel_bytes{650'000'000}, pipeline_bytes{471'000'000};
constexpr std::size_t num_regions = 8, per_region = 8;

DeviceId device(std::size_t region, std::size_t index) { return DeviceId(region * per_region + index); }

/// DATAP of one group: sharded parameter server, max over d of the sum over d' of 2 (alpha + c / (D beta)).
double data_parallel_s(const Platform& p, const std::vector<DeviceId>& group) {
  const Bytes shard = data_parallel_bytes / static_cast<std::int64_t>(group.size());
  double worst = 0;
  for (const DeviceId a : group) {
    double sum = 0;
    for (const DeviceId b : group)
      if (a != b) sum += 2 * transfer_time(p, a, b, shard).value;
    worst = std::max(worst, sum);
  }
  return worst;
}

double edge_s(const Platform& p, DeviceId a, DeviceId b) { return 2 * transfer_time(p, a, b, pipeline_bytes).value; }

/// Shortest open path over the regions by trying all orders; all pairs of two regions are alike, so any matching is
/// best.
double shortest_open_path_s(const Platform& p) {
  std::array<std::array<double, num_regions>, num_regions> cost{};
  for (std::size_t a = 0; a < num_regions; ++a)
    for (std::size_t b = 0; b < num_regions; ++b) cost[a][b] = a == b ? 0 : edge_s(p, device(a, 0), device(b, 0));
  std::array<std::size_t, num_regions> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  double best = std::numeric_limits<double>::infinity();
  do {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) sum += cost[order[i]][order[i + 1]];
    best = std::min(best, sum);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

// Closed forms: the policies that find such placements are not part of this test.
TEST(Golden, G22_DtfmWorldWideCostOfBothPlacements) {
  const Platform p = load_platform("dtfm-5");
  constexpr double tolerance = 5e-4;  // the published figures have three decimals

  // One pipeline per region: stage j is device j of every region, data parallel across regions; edges inside a region,
  // 7 x 2 (5 ms + 0.471e9 / 0.25e9 s) = 26.446 s.
  std::vector<DeviceId> across, inside;
  for (std::size_t r = 0; r < num_regions; ++r) across.push_back(device(r, 0));
  const double pipeline = 7 * edge_s(p, device(0, 0), device(0, 1));
  EXPECT_NEAR(data_parallel_s(p, across), 22.758, tolerance);
  EXPECT_NEAR(pipeline, 26.446, tolerance);
  EXPECT_NEAR(data_parallel_s(p, across) + pipeline, 49.204, tolerance);

  // One data-parallel group per region, 7 x 2 (5 ms + 0.65e9 / 8 / 0.25e9 s) = 4.620 s; the pipeline crosses regions.
  for (std::size_t i = 0; i < per_region; ++i) inside.push_back(device(0, i));
  EXPECT_NEAR(data_parallel_s(p, inside), 4.620, tolerance);
  EXPECT_NEAR(shortest_open_path_s(p), 54.788, tolerance);
  EXPECT_NEAR(data_parallel_s(p, inside) + shortest_open_path_s(p), 59.408, tolerance);
}

TEST(Gpu, CatalogueIsPlausibleThroughout) {
  const auto gpus = gpu_catalogue();
  EXPECT_GE(gpus.size(), 15u);
  for (const auto& gpu : gpus) {
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
    EXPECT_GE(gpu.peak_fp16, gpu.peak_fp32) << gpu.name;  // true of every type listed; a swapped row is not
    EXPECT_TRUE(gpu.peak_bf16 == gpu.peak_fp16 || gpu.peak_bf16 == gpu.peak_fp32) << gpu.name;
    EXPECT_GE(gpu.memory, Bytes(8LL << 30)) << gpu.name;
    EXPECT_LE(gpu.memory, Bytes(192LL << 30)) << gpu.name;
    EXPECT_GE(gpu.memory_bandwidth.value, 300e9) << gpu.name;
    EXPECT_LE(gpu.memory_bandwidth.value, 8e12) << gpu.name;
  }
  struct Figures {
    const char* name;
    double fp32, fp16, gb_s;
    std::int64_t gib;
  };
  for (const auto& [name, fp32, fp16, gb_s, gib] : std::vector<Figures>{{"RTX 3090", 35.6, 71, 936, 24},
                                                                        {"RTX 3080", 29.8, 59.5, 760, 10},
                                                                        {"RTX 2080 Ti", 13.4, 53.8, 616, 11},
                                                                        {"V100-16GB", 15.7, 125, 900, 16},
                                                                        {"A40", 37.4, 149.7, 696, 48},
                                                                        {"A100-80GB", 19.5, 312, 2039, 80}}) {
    const GpuType gpu = find_gpu(name);
    EXPECT_DOUBLE_EQ(gpu.peak_fp32.value, fp32 * 1e12) << name;
    EXPECT_DOUBLE_EQ(gpu.peak_fp16.value, fp16 * 1e12) << name;
    EXPECT_DOUBLE_EQ(gpu.memory_bandwidth.value, gb_s * 1e9) << name;
    EXPECT_EQ(gpu.memory, Bytes(gib << 30)) << name;
  }
}

}  // namespace
}  // namespace fusion
