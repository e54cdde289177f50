// Generated worlds: what was asked for, the same bytes for a seed, and files that stay small.
#include "core/platform/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/platform/world_regions.h"
#include "tests/support/platform_file.h"

namespace fusion {
namespace {

using testing::HasSubstr;

constexpr double mbps = 1e6 / 8, gbps = 1e9 / 8;

class Generate : public PlatformFile {
 protected:
  Platform made(const World& world) { return load(generate_platform(world)); }
  static std::string refusal(const World& world) {
    try {
      generate_platform(world);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }
  static bool is_home(const Site& site) { return site.name.find(".h") != std::string::npos; }
};

TEST_F(Generate, ASeedGivesTheSameBytes) {
  World world;
  const std::string first = generate_platform(world);
  EXPECT_EQ(generate_platform(world), first);
  world.seed = 2;
  EXPECT_NE(generate_platform(world), first);
}

TEST_F(Generate, DevicesAndHomesAreAsManyAsAskedFor) {
  for (const std::int64_t devices : {1, 2, 7, 100, 4321})
    for (const double share : {0.0, 0.25, 0.5, 1.0}) {
      World world;
      world.devices = devices;
      world.home_share = share;
      const Platform p = made(world);
      EXPECT_EQ(std::ssize(p.devices), devices);
      std::int64_t at_home = 0;
      for (const Device& device : p.devices) at_home += is_home(p.sites[p.hosts[device.host.index()].site.index()]);
      EXPECT_EQ(at_home, std::llround(share * static_cast<double>(devices)));
    }
}

TEST_F(Generate, EverythingLiesInItsRange) {
  World world;
  world.devices = 3000;
  world.regions = {"Tokyo", "London"};
  world.cluster_gpus = {{"T4", 1}};
  world.home_gpus = {{"RTX 3080", 3}, {"RTX 3090", 1}};
  world.home_uplink = {BytesPerSecond(10 * mbps), BytesPerSecond(200 * mbps)};
  world.max_hosts = 4;
  const Platform p = made(world);
  std::set<std::string> regions(p.regions.begin(), p.regions.end());
  EXPECT_EQ(regions, (std::set<std::string>{"Tokyo", "London"}));
  std::map<std::string, int> gpus;
  std::set<double> uplinks;
  for (const Site& site : p.sites) {
    const BytesPerSecond up = p.link(site.uplink->out).bandwidth, down = p.link(site.uplink->in).bandwidth;
    EXPECT_LE(site.hosts.size(), is_home(site) ? 1u : 4u);
    if (!is_home(site)) {
      EXPECT_EQ(up, down);
      EXPECT_GE(up.value, 1 * gbps);
      EXPECT_LE(up.value, 100 * gbps);
      continue;
    }
    ++gpus[p.gpu_of(p.hosts[site.hosts.front().index()].devices.front()).name];
    uplinks.insert(up.value / mbps);
    EXPECT_GE(up.value, 10 * mbps);
    EXPECT_DOUBLE_EQ(down.value, std::min(10 * up.value, 200 * mbps));
  }
  // Eight rungs from 10 to 200: 10 * 20^(k/7) in two digits.
  EXPECT_THAT(uplinks, testing::ElementsAre(10, 15, 24, 36, 55, 85, 130, 200));
  // Three to one of about 1,300 homes: sqrt(1300 * 3/16) = 16 is one standard deviation.
  const double homes = gpus["RTX 3080"] + gpus["RTX 3090"];
  EXPECT_NEAR(gpus["RTX 3080"] / homes, 0.75, 0.06);
}

// A message from a home to a home crosses both lines and what DT-FM measured between the regions.
TEST_F(Generate, RegionsAreAsFarApartAsTheyWereMeasured) {
  World world;
  world.devices = 400;
  world.home_share = 1;
  const Platform p = made(world);
  const auto place = [&](const Site& site) {
    return static_cast<std::size_t>(std::ranges::find(world_regions, p.regions[site.region->index()]) -
                                    world_regions.begin());
  };
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const DeviceId a(random() % p.devices.size()), b(random() % p.devices.size());
    const HostId from = p.device(a).host, to = p.device(b).host;
    if (from == to) continue;
    const Site &here = p.sites[p.hosts[from.index()].site.index()], &there = p.sites[p.hosts[to.index()].site.index()];
    const Link &up = p.link(here.uplink->out), &down = p.link(there.uplink->in);
    const std::size_t x = place(here), y = place(there);
    const Route way = route(p, a, b);
    // Two GPUs of a home leave it by a bus of 10 us, each end half of that.
    const double buses = p.buses[a.index()].has_value() * 5e-6 + p.buses[b.index()].has_value() * 5e-6;
    EXPECT_NEAR(way.latency.value, up.latency.value + region_latency_ms[x][y] * 1e-3 + down.latency.value + buses,
                1e-12);
    EXPECT_DOUBLE_EQ(way.bandwidth.value,
                     std::min({up.bandwidth.value, region_bandwidth_gbps[x][y] * gbps, down.bandwidth.value}));
  }
}

TEST_F(Generate, TheTableOfRegionsIsThatOfDtfm5) {
  const Platform p = load_platform("dtfm-5");
  for (std::size_t a = 0; a < p.sites.size(); ++a)
    for (std::size_t b = 0; b < p.sites.size(); ++b) {
      EXPECT_EQ(p.sites[a].name, world_regions[a]);
      const DeviceId from = p.hosts[p.sites[a].hosts[0].index()].devices[0];
      const DeviceId to = p.hosts[p.sites[b].hosts[1].index()].devices[0];
      EXPECT_DOUBLE_EQ(route(p, from, to).latency.value, region_latency_ms[a][b] * 1e-3);
      EXPECT_DOUBLE_EQ(route(p, from, to).bandwidth.value, region_bandwidth_gbps[a][b] * gbps);
    }
  for (std::size_t a = 0; a < num_world_regions; ++a)
    for (std::size_t b = 0; b < num_world_regions; ++b) {
      EXPECT_EQ(region_latency_ms[a][b], region_latency_ms[b][a]);
      EXPECT_EQ(region_bandwidth_gbps[a][b], region_bandwidth_gbps[b][a]);
    }
}

TEST_F(Generate, AHundredThousandDevicesAreAShortFileAndNoSquare) {
  World world;
  world.devices = 100'000;
  const std::string text = generate_platform(world);
  EXPECT_LT(text.size(), 2'000'000u);
  const Platform p = load(text);
  EXPECT_EQ(p.devices.size(), 100'000u);
  EXPECT_GT(p.sites.size(), 40'000u);
  EXPECT_EQ(p.matrix->entries.size(), 100u);  // ten regions
  EXPECT_LT(p.links.size(), 5 * p.devices.size());
  const Platform part = first_devices(p, 1000);
  EXPECT_EQ(route(part, DeviceId(0), DeviceId(999)).latency, route(p, DeviceId(0), DeviceId(999)).latency);
}

TEST_F(Generate, WrongWorldsAreRefusedByField) {
  const auto with = [](auto change) {
    World world;
    change(world);
    return refusal(world);
  };
  EXPECT_THAT(with([](World& w) { w.devices = 0; }), HasSubstr("devices: 0 is out of range"));
  EXPECT_THAT(with([](World& w) { w.devices = 1'000'001; }), HasSubstr("devices: 1000001"));
  EXPECT_THAT(with([](World& w) { w.home_share = 1.5; }), HasSubstr("home-share: 1.5 is not a share"));
  EXPECT_THAT(with([](World& w) { w.home_share = std::nan(""); }), HasSubstr("home-share: nan"));
  EXPECT_THAT(with([](World& w) { w.regions = {"Tokio"}; }), HasSubstr("did you mean \"Tokyo\""));
  EXPECT_THAT(with([](World& w) { w.regions = {"Tokyo", "Tokyo"}; }), HasSubstr("\"Tokyo\" stands there twice"));
  EXPECT_THAT(with([](World& w) { w.home_gpus = {{"RTX 4091", 1}}; }), HasSubstr("did you mean \"RTX 4090\""));
  EXPECT_THAT(with([](World& w) { w.home_gpus = {}; }), HasSubstr("home-gpus: names no GPU"));
  EXPECT_THAT(with([](World& w) { w.cluster_gpus = {{"T4", 0}}; }), HasSubstr("cluster-gpus: \"T4\" has the weight 0"));
  EXPECT_THAT(with([](World& w) { std::swap(w.home_uplink.low, w.home_uplink.high); }),
              HasSubstr("home-uplink: \"1 Gbps..8 Mbps\" runs downwards"));
  EXPECT_THAT(with([](World& w) { w.asymmetry = 0.5; }), HasSubstr("asymmetry: 0.5"));
  EXPECT_THAT(with([](World& w) { w.max_hosts = 0; }), HasSubstr("hosts: 0"));
  EXPECT_THAT(with([](World& w) { w.name = "a>b"; }), HasSubstr("name: "));
}

TEST(GenerateText, MixesAndRanges) {
  const auto mix = parse_gpu_mix("home-gpus", "RTX 3080=3,T4");
  EXPECT_EQ(mix, (std::vector<GpuShare>{{"RTX 3080", 3}, {"T4", 1}}));
  EXPECT_EQ(to_string(mix), "RTX 3080=3,T4");
  const auto range = parse_bandwidth_range("home-uplink", "8 Mbps..1 Gbps");
  EXPECT_DOUBLE_EQ(range.low.value, 8 * mbps);
  EXPECT_DOUBLE_EQ(range.high.value, gbps);
  EXPECT_EQ(parse_bandwidth_range("home-uplink", "1 Gbps").low, BytesPerSecond(gbps));
  EXPECT_THROW(parse_gpu_mix("home-gpus", "T4=x"), InputError);
  EXPECT_THROW(parse_bandwidth_range("home-uplink", "8..9"), InputError);
}

}  // namespace
}  // namespace fusion
