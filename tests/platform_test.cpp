// Platform files and routes: what a file means, and that size does not hurt.
#include "core/platform/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "core/base/error.h"
#include "core/platform/groups.h"
#include "tests/support/platform_file.h"

namespace fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double mbps = 1e6 / 8, gbps = 1e9 / 8;

TEST_F(PlatformFile, NamesAndCountsFollowTheFile) {
  const Platform p = load(two_sites);
  EXPECT_EQ(p.name, "two");
  EXPECT_EQ(p.description, "two sites");
  EXPECT_EQ(p.file, path_);
  std::vector<std::string> devices;
  for (const auto& device : p.devices) devices.push_back(device.name);
  EXPECT_THAT(devices, ElementsAre("a0.gpu0", "a0.gpu1", "a1.gpu0", "a1.gpu1", "b"));
  EXPECT_EQ(p.hosts.size(), 3u);
  EXPECT_EQ(p.sites[0].hosts, (std::vector{HostId(0), HostId(1)}));
  EXPECT_EQ(p.gpus.size(), 2u);  // only what is used
  EXPECT_EQ(p.gpu_of(DeviceId(4)).name, "RTX 3090");
}

TEST_F(PlatformFile, RoutesCrossBusNicAndUplinkInOrder) {
  const Platform p = load(two_sites);
  const auto at = [&](const char* from, const char* to) { return route(p, find(p, from), find(p, to)); };

  const Route inside = at("a0.gpu0", "a0.gpu1");
  EXPECT_THAT(names(p, inside), ElementsAre("a0.gpu0.bus.out", "a0.gpu1.bus.in"));
  EXPECT_DOUBLE_EQ(inside.latency.value, 10e-6);  // 5 us out, 5 us in
  EXPECT_DOUBLE_EQ(inside.bandwidth.value, 80 * gbps);

  const Route local = at("a0.gpu0", "a1.gpu1");
  EXPECT_THAT(names(p, local), ElementsAre("a0.gpu0.bus.out", "a0.nic.out", "a1.nic.in", "a1.gpu1.bus.in"));
  EXPECT_DOUBLE_EQ(local.latency.value, 10e-6 + 0.1e-3);
  EXPECT_DOUBLE_EQ(local.bandwidth.value, 10 * gbps);

  const Route far = at("a1.gpu0", "b");  // b's downlink, 50 Mbps, is narrower than A's uplink
  EXPECT_THAT(names(p, far), ElementsAre("a1.gpu0.bus.out", "a1.nic.out", "A.uplink", "B.downlink"));
  EXPECT_DOUBLE_EQ(far.latency.value, 5e-6 + 0.05e-3 + 2e-3 + 20e-3);
  EXPECT_DOUBLE_EQ(far.bandwidth.value, 50 * mbps);

  const Route back = at("b", "a1.gpu0");
  EXPECT_THAT(names(p, back), ElementsAre("B.uplink", "A.downlink", "a1.nic.in", "a1.gpu0.bus.in"));
  EXPECT_DOUBLE_EQ(back.latency.value, 20e-3 + 3e-3 + 0.05e-3 + 5e-6);
  EXPECT_DOUBLE_EQ(back.bandwidth.value, 8 * mbps);

  // 1 MB at 8 Mbps is 1 s, after 23.055 ms
  EXPECT_DOUBLE_EQ(transfer_time(p, find(p, "b"), find(p, "a1.gpu0"), Bytes(1'000'000)).value, 1.023055);
}

TEST_F(PlatformFile, ADeviceReachesItselfAtOnce) {
  const Platform p = load(two_sites);
  const Route none = route(p, DeviceId(1), DeviceId(1));
  EXPECT_EQ(none.num_links, 0u);
  EXPECT_EQ(none.latency, Seconds(0));
  EXPECT_EQ(none.bandwidth.value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(transfer_time(p, DeviceId(1), DeviceId(1), Bytes(1LL << 40)), Seconds(0));
}

TEST_F(PlatformFile, HostsOverrideTheNetworkOfTheirSite) {
  const Platform p = load(R"(name = "x"
[[site]]
name = "s"
network = {bandwidth = "1 Gbps", latency = "2 ms"}
[[site.host]]
name = "slow"
gpu = "T4"
network = {bandwidth = "10 Mbps", latency = "8 ms", shared = false}
[[site.host]]
name = "fast"
gpu = "T4"
)");
  const Route way = route(p, DeviceId(0), DeviceId(1));
  EXPECT_DOUBLE_EQ(way.latency.value, 4e-3 + 1e-3);  // each host's half
  EXPECT_DOUBLE_EQ(way.bandwidth.value, 10 * mbps);
  EXPECT_FALSE(p.link(way.links[0]).shared);
  EXPECT_TRUE(p.link(way.links[1]).shared);
}

TEST_F(PlatformFile, MatrixRowsSendAndColumnsReceive) {
  const Platform p = load(site_matrix);
  const auto at = [&](const char* from, const char* to) { return route(p, find(p, from), find(p, to)); };
  EXPECT_THAT(names(p, at("e0", "w.gpu1")), ElementsAre("E>W", "w.gpu1.bus.in"));
  EXPECT_DOUBLE_EQ(at("e0", "w.gpu1").bandwidth.value, 0.15 * gbps);
  EXPECT_DOUBLE_EQ(at("e0", "w.gpu1").latency.value, 60e-3 + 5e-6);
  EXPECT_DOUBLE_EQ(at("w.gpu0", "e1").bandwidth.value, 1.17 * gbps);
  EXPECT_DOUBLE_EQ(at("w.gpu0", "e1").latency.value, 50e-3 + 5e-6);
  EXPECT_THAT(names(p, at("e0", "e1")), ElementsAre("E>E"));  // the diagonal, between hosts of a site
  EXPECT_THAT(names(p, at("w.gpu0", "w.gpu1")), ElementsAre("w.gpu0.bus.out", "w.gpu1.bus.in"));  // the bus, in a host
  EXPECT_FALSE(p.link(at("e0", "w.gpu1").links[0]).shared);  // a measured pair has its entry to itself
}

TEST_F(PlatformFile, MatricesOfHostsAndOfDevices) {
  const std::string head =
      "name = \"m\"\n[[site]]\nname = \"s\"\n[[site.host]]\nname = \"h\"\ncount = 2\ngpu = \"T4\"\ngpus = 2\n";
  const Platform hosts = load(head +
                              "[matrix]\nlevel = \"host\"\nbandwidth_mbps = [[900, 10], [20, 800]]\n"
                              "latency_us = [[1, 2000], [3000, 4]]\nshared = true\n");
  EXPECT_THAT(names(hosts, route(hosts, DeviceId(0), DeviceId(1))), ElementsAre("h0>h0"));
  EXPECT_THAT(names(hosts, route(hosts, DeviceId(3), DeviceId(0))), ElementsAre("h1>h0"));
  EXPECT_DOUBLE_EQ(route(hosts, DeviceId(3), DeviceId(0)).bandwidth.value, 20 * mbps);
  EXPECT_DOUBLE_EQ(route(hosts, DeviceId(3), DeviceId(0)).latency.value, 3e-3);
  EXPECT_TRUE(hosts.links[0].shared);

  const Platform devices = load(head +
                                "[matrix]\nlevel = \"device\"\nbandwidth_mbps = "
                                "[[0,1,2,3],[4,0,5,6],[7,8,0,9],[10,11,12,0]]\nlatency_ms = "
                                "[[0,1,1,1],[1,0,1,1],[1,1,0,1],[1,1,1,0]]\n");
  EXPECT_THAT(names(devices, route(devices, DeviceId(3), DeviceId(2))), ElementsAre("h1.gpu1>h1.gpu0"));
  EXPECT_DOUBLE_EQ(route(devices, DeviceId(3), DeviceId(2)).bandwidth.value, 12 * mbps);
  EXPECT_DOUBLE_EQ(route(devices, DeviceId(1), DeviceId(2)).bandwidth.value, 5 * mbps);
}

constexpr const char* regions = R"(name = "r"
[[site]]
name = "x."
count = 3
region = "East"
uplink = {bandwidth = "100 Mbps", latency = "2 ms"}
downlink = {bandwidth = "300 Mbps", latency = "3 ms"}
network = {bandwidth = "10 Gbps", latency = "0.2 ms"}
[[site.host]]
name = "x."
count = 2
gpu = "T4"
gpus = 2
bus = {bandwidth = "100 Gbps", latency = "10 us"}
[[site]]
name = "y"
region = "West"
[[site.host]]
name = "y"
gpu = "A40"
[matrix]
level = "region"
names = ["East", "West"]
bandwidth_gbps = [[2, 0.5], [0.4, 3]]
latency_ms = [[5, 60], [70, 6]]
)";

// A site with a count stands for many; an entry of regions joins sites, of one region or of two, and nothing inside
// one.
TEST_F(PlatformFile, SitesAreCountedAndLieInRegions) {
  const Platform p = load(regions);
  EXPECT_EQ(p.sites.size(), 4u);
  EXPECT_EQ(p.sites[2].name, "x.2");
  EXPECT_EQ(p.hosts[3].name, "x.1.1");
  EXPECT_EQ(p.devices.size(), 13u);
  EXPECT_EQ(p.regions, (std::vector<std::string>{"East", "West"}));
  const auto at = [&](const char* from, const char* to) { return route(p, find(p, from), find(p, to)); };
  EXPECT_THAT(names(p, at("x.0.0.gpu0", "x.0.0.gpu1")), ElementsAre("x.0.0.gpu0.bus.out", "x.0.0.gpu1.bus.in"));
  EXPECT_THAT(names(p, at("x.0.0.gpu0", "x.0.1.gpu1")),
              ElementsAre("x.0.0.gpu0.bus.out", "x.0.0.nic.out", "x.0.1.nic.in", "x.0.1.gpu1.bus.in"));
  const Route near = at("x.0.0.gpu0", "x.2.1.gpu1");
  EXPECT_THAT(names(p, near), ElementsAre("x.0.0.gpu0.bus.out", "x.0.0.nic.out", "x.0.uplink", "East>East",
                                          "x.2.downlink", "x.2.1.nic.in", "x.2.1.gpu1.bus.in"));
  EXPECT_DOUBLE_EQ(near.latency.value, 10e-6 + 0.2e-3 + 2e-3 + 5e-3 + 3e-3);
  EXPECT_THAT(names(p, at("y", "x.2.0.gpu0")),
              ElementsAre("West>East", "x.2.downlink", "x.2.0.nic.in", "x.2.0.gpu0.bus.in"));
  EXPECT_DOUBLE_EQ(at("y", "x.2.0.gpu0").bandwidth.value, 300 * mbps);
  EXPECT_DOUBLE_EQ(at("x.2.0.gpu0", "y").bandwidth.value, 100 * mbps);
}

TEST_F(PlatformFile, FirstDevicesKeepTheRegionsThatAreLeft) {
  const Platform whole = load(regions), part = first_devices(whole, 8);  // two sites of East
  EXPECT_EQ(part.regions, std::vector<std::string>{"East"});
  EXPECT_EQ(part.matrix->entries.size(), 1u);
  EXPECT_EQ(names(part, route(part, DeviceId(0), DeviceId(7))), names(whole, route(whole, DeviceId(0), DeviceId(7))));
  EXPECT_EQ(first_devices(whole, 13), whole);
}

TEST_F(PlatformFile, WithoutADiagonalOfRegionsUplinksJoinTheirSites) {
  std::string text = regions;
  text.replace(text.find("names ="), 0, "diagonal = false\n");
  text.replace(text.find("[[2, 0.5]"), 9, "[[0, 0.5]");
  text.replace(text.find("0.4, 3]"), 7, "0.4, 0]");
  text.replace(text.find("[[5, 60], [70, 6]]"), 18, "[[0, 60], [70, 0]]");
  const Platform p = load(text);
  EXPECT_THAT(names(p, route(p, find(p, "x.0.0.gpu0"), find(p, "x.1.0.gpu0"))),
              testing::IsSupersetOf({"x.0.uplink", "x.1.downlink"}));
  text.erase(text.find("uplink ="), text.find("network =") - text.find("uplink ="));
  EXPECT_THAT(fault(text), HasSubstr(":2: site.uplink: is missing; without uplink and downlink nothing joins site"));
}

TEST_F(PlatformFile, ALatencyOfNoneIsSaid) {
  std::string text = two_sites;
  text.replace(text.find("\"10 us\""), 7, "\"none\"");
  const Platform p = load(text);
  EXPECT_EQ(route(p, DeviceId(0), DeviceId(1)).latency, Seconds(0));
  EXPECT_EQ(route(load_platform("dtfm-1"), DeviceId(0), DeviceId(63)).latency, Seconds(0));
}

TEST_F(PlatformFile, LocalGpuTypesExtendAndOverrideTheCatalogue) {
  const std::string gpu = R"(name = "x"
[[gpu]]
name = "RTX 4090"
peak_fp32 = "1 TFLOP/s"
peak_fp16 = "2 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "10 GB/s"
sustained_flops = 1
sustained_bandwidth = 0.5
launch_overhead = "0 s"
source = "made up"
[[site]]
name = "s"
[[site.host]]
name = "h"
gpu = "RTX 4090"
)";
  const Platform p = load(gpu);
  EXPECT_EQ(p.gpus[0].peak_fp32, FlopsPerSecond(1e12));
  EXPECT_EQ(p.gpus[0].peak(DType::bf16), FlopsPerSecond(1e12));  // no bf16 units: the fp32 rate
  EXPECT_EQ(p.gpus[0].peak(DType::fp16), FlopsPerSecond(2e12));
  EXPECT_EQ(p.gpus[0].memory, Bytes(1LL << 30));
}

TEST_F(PlatformFile, AProfileBesideTheFileGivesMeasuredOps) {
  const std::string profile = path_.filename().string() + ".json";
  const std::string text = R"(name = "x"
[[gpu]]
name = "mine"
peak_fp32 = "1 TFLOP/s"
peak_fp16 = "2 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "10 GB/s"
sustained_flops = 1
sustained_bandwidth = 0.5
launch_overhead = "0 s"
source = "made up"
profile = ")" + profile + R"("
[[site]]
name = "s"
[[site.host]]
name = "h"
gpu = "mine"
)";
  const std::filesystem::path file = path_.parent_path() / profile;
  const auto with = [&](const std::string& ops) { std::ofstream(file) << R"({"ops": [)" + ops + "]}"; };
  const auto op = [](const std::string& name, const std::string& forward) {
    return R"({"name": ")" + name + R"(", "forward_s": )" + forward +
           R"(, "backward_s": 2.5, "forward_flops": 10, "backward_flops": 20})";
  };
  with(op("z", "1.5") + "," + op("a", "0.5"));
  const std::vector<MeasuredOp> expected = {{"a", Flops(10), Flops(20), Seconds(0.5), Seconds(2.5)},
                                            {"z", Flops(10), Flops(20), Seconds(1.5), Seconds(2.5)}};
  EXPECT_EQ(load(text).gpus[0].measured, expected);

  const auto refused = [&]() -> std::string {
    try {
      load(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  with(op("a", "-1"));
  EXPECT_THAT(refused(), testing::AllOf(HasSubstr(profile + ": ops[0].forward_s"), HasSubstr("negative")));
  with(op("a", "1") + "," + op("a", "2"));
  EXPECT_THAT(refused(), HasSubstr("\"a\" is given twice"));
  std::filesystem::remove(file);
  EXPECT_THAT(refused(), HasSubstr("no such file"));
}

TEST(Platform, UnknownNamesSuggestTheNearest) {
  const auto message = [](const char* name) -> std::string {
    try {
      load_platform(name);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("testbd-3"),
              testing::StartsWith("platform: \"testbd-3\" is not known; did you mean \"testbed-3\""));
  EXPECT_THAT(message("gpus"), HasSubstr("\"gpus\" is not known"));  // the catalogue is not a platform
  EXPECT_THAT(message(""), HasSubstr("platform: \"\" is not known"));
  EXPECT_EQ(message("./nothing.toml"), "./nothing.toml: no such file");
  EXPECT_THAT(message("../testbed-3"), HasSubstr("no such file"));
}

TEST(Gpu, CatalogueEntriesAreFoundByName) {
  // Vendor figures that anyone can look up.
  const GpuType gpu = find_gpu("RTX 4090");
  EXPECT_EQ(gpu.peak(DType::fp32), FlopsPerSecond(82.6e12));
  EXPECT_EQ(gpu.peak(DType::fp16), FlopsPerSecond(165.2e12));
  EXPECT_EQ(gpu.memory, Bytes(24LL << 30));
  EXPECT_EQ(gpu.memory_bandwidth, BytesPerSecond(1008e9));
  EXPECT_EQ(find_gpu("RTX 2080 Ti").peak(DType::bf16), FlopsPerSecond(13.4e12));  // no bf16 units
  EXPECT_THROW(find_gpu("RTX 4O90"), InputError);
}

/// A platform text drawn at random: sites with and without networks, uplinks or a matrix.
std::string random_platform(std::mt19937_64& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto link = [&] {
    return "{bandwidth = \"" + std::to_string(draw(1, 1000)) + " Mbps\", latency = \"" + std::to_string(draw(1, 90)) +
           " ms\", shared = " + (draw(0, 1) ? "true" : "false") + "}\n";
  };
  const int num_sites = draw(1, 4);
  const bool matrix = draw(0, 1);
  std::string text = "name = \"random\"\n";
  for (int s = 0; s < num_sites; ++s) {
    text += "[[site]]\nname = \"s" + std::to_string(s) + "\"\nnetwork = " + link();
    if (!matrix || draw(0, 1)) text += "uplink = " + link() + "downlink = " + link();
    for (int h = 0, n = draw(1, 3); h < n; ++h)
      text += "[[site.host]]\nname = \"s" + std::to_string(s) + "h" + std::to_string(h) +
              "-\"\ncount = " + std::to_string(draw(1, 3)) + "\ngpu = \"" + (draw(0, 1) ? "T4" : "A10") +
              "\"\ngpus = " + std::to_string(draw(1, 3)) + "\nbus = " + link();
  }
  if (!matrix) return text;
  const auto rows = [&](int low, int high) {
    std::string all = "[";
    for (int i = 0; i < num_sites; ++i) {
      all += "[";
      for (int j = 0; j < num_sites; ++j) all += std::to_string(draw(low, high)) + ",";
      all += "],";
    }
    return all + "]\n";
  };
  return text + "[matrix]\nlevel = \"site\"\nbandwidth_mbps = " + rows(1, 1000) + "latency_ms = " + rows(1, 90);
}

TEST_F(PlatformFile, RoutesAddLatenciesAndTakeTheNarrowestLink) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const Platform p = load(random_platform(random));
    for (std::size_t a = 0; a < p.devices.size(); ++a)
      for (std::size_t b = 0; b < p.devices.size(); ++b) {
        if (a == b) continue;
        const Route there = route(p, DeviceId(a), DeviceId(b)), back = route(p, DeviceId(b), DeviceId(a));
        double latency = 0, bandwidth = std::numeric_limits<double>::infinity();
        std::set<LinkId> used;
        for (const LinkId id : there) {
          latency += p.link(id).latency.value;
          bandwidth = std::min(bandwidth, p.link(id).bandwidth.value);
          EXPECT_TRUE(used.insert(id).second) << "a link twice";
        }
        EXPECT_DOUBLE_EQ(there.latency.value, latency);
        EXPECT_EQ(there.bandwidth.value, bandwidth);
        const bool diagonal =
            p.matrix && p.hosts[p.devices[a].host.index()].site == p.hosts[p.devices[b].host.index()].site;
        for (const LinkId id : back) {
          const bool is_entry = p.link(id).name.find('>') != std::string::npos;
          EXPECT_TRUE((diagonal && is_entry) || !used.contains(id)) << p.link(id).name;
        }
      }
  }
}

TEST_F(PlatformFile, FirstDevicesKeepTheirRoutesAndNothingElse) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    const Platform whole = load(random_platform(random));
    EXPECT_EQ(first_devices(whole, whole.devices.size()), whole);
    const std::size_t n = 1 + random() % whole.devices.size();
    const Platform part = first_devices(whole, n);
    ASSERT_EQ(part.devices.size(), n);
    std::set<std::string> hosts, sites;
    for (std::size_t a = 0; a < n; ++a) {
      EXPECT_EQ(part.devices[a].name, whole.devices[a].name);
      EXPECT_EQ(part.gpu_of(DeviceId(a)), whole.gpu_of(DeviceId(a)));
      const Host& host = part.hosts[part.devices[a].host.index()];
      hosts.insert(host.name), sites.insert(part.sites[host.site.index()].name);
      for (std::size_t b = 0; b < n; ++b) {
        const Route small = route(part, DeviceId(a), DeviceId(b)), big = route(whole, DeviceId(a), DeviceId(b));
        EXPECT_EQ(names(part, small), names(whole, big));
        EXPECT_EQ(small.latency, big.latency);
        EXPECT_EQ(small.bandwidth, big.bandwidth);
      }
    }
    EXPECT_EQ(part.hosts.size(), hosts.size());
    EXPECT_EQ(part.sites.size(), sites.size());
    std::size_t listed = 0;
    for (const Host& host : part.hosts) listed += host.devices.size();
    EXPECT_EQ(listed, n);
  }
}

TEST_F(PlatformFile, AnySubsetOfDevicesKeepsItsRoutes) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 40; ++round) {
    const Platform whole = load(random_platform(random));
    std::vector<DeviceId> kept;
    for (std::size_t d = 0; d < whole.devices.size(); ++d)
      if (random() % 2 == 0) kept.emplace_back(d);
    if (kept.empty()) continue;
    const Platform part = only_devices(whole, kept);
    ASSERT_EQ(part.devices.size(), kept.size());
    for (std::size_t a = 0; a < kept.size(); ++a) {
      EXPECT_EQ(part.devices[a].name, whole.device(kept[a]).name);
      EXPECT_EQ(part.gpu_of(DeviceId(a)), whole.gpu_of(kept[a]));
      EXPECT_EQ(std::ranges::count(part.hosts[part.devices[a].host.index()].devices, DeviceId(a)), 1);
      for (std::size_t b = 0; b < kept.size(); ++b)
        EXPECT_EQ(names(part, route(part, DeviceId(a), DeviceId(b))), names(whole, route(whole, kept[a], kept[b])));
    }
  }
}

TEST(Platform, FirstDevicesRefusesNoneAndTooMany) {
  const Platform p = load_platform("lan4");
  EXPECT_THROW(first_devices(p, 0), InputError);
  try {
    first_devices(p, 5);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "lan4: devices: 5 devices asked for, it has 4");
  }
}

std::string large_platform(int num_sites, int hosts_per_site, int gpus, bool listed) {
  std::string text = "name = \"large\"\n";
  for (int s = 0; s < num_sites; ++s) {
    const std::string site = std::to_string(s);
    text += "[[site]]\nname = \"s" + site +
            "\"\nnetwork = {bandwidth = \"10 Gbps\", latency = \"0.1 ms\"}\n"
            "uplink = {bandwidth = \"1 Gbps\", latency = \"5 ms\"}\ndownlink = {bandwidth = \"1 Gbps\", latency = \"5 "
            "ms\"}\n";
    const std::string tail =
        "gpu = \"T4\"\ngpus = " + std::to_string(gpus) + "\nbus = {bandwidth = \"100 Gbps\", latency = \"10 us\"}\n";
    for (int h = 0; h < (listed ? hosts_per_site : 1); ++h)
      text += "[[site.host]]\nname = \"s" + site + "h" + std::to_string(h) + "-\"\n" +
              (listed ? "" : "count = " + std::to_string(hosts_per_site) + "\n") + tail;
  }
  return text;
}

TEST_F(PlatformFile, FourThousandDevicesCountedOrListed) {
  for (const bool listed : {false, true}) {
    const Platform p = load(large_platform(64, listed ? 64 : 16, listed ? 1 : 4, listed));
    EXPECT_EQ(p.devices.size(), 4096u);
    EXPECT_EQ(route(p, DeviceId(0), DeviceId(4095)).num_links, 6u);
  }
}

TEST_F(PlatformFile, AHundredThousandDevicesAreLinear) {
  const Platform p = load(large_platform(100, 125, 8, false));
  EXPECT_EQ(p.devices.size(), 100'000u);
  // 4 links per site in pairs, 2 per host, 2 per device: no square of anything
  EXPECT_EQ(p.links.size(), 100u * 2 + 12'500u * 2 + 100'000u * 2);
  EXPECT_EQ(first_devices(p, 50'000).sites.size(), 50u);
}

}  // namespace
}  // namespace fusion
