// Platform files and routes: what a file means, what is refused, and that size does not hurt.
#include "core/platform/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "core/base/error.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double mbps = 1e6 / 8, gbps = 1e9 / 8;

class PlatformFile : public testing::Test {
 protected:
  ~PlatformFile() override { std::filesystem::remove(path_); }

  Platform load(const std::string& text) {
    std::ofstream(path_) << text;
    return load_platform(path_.string());
  }

  /// The message of the InputError that loading `text` must throw, without the directory.
  std::string fault(const std::string& text) {
    try {
      load(text);
    } catch (const InputError& error) {
      std::string message = error.what();
      EXPECT_THAT(message, AllOf(testing::StartsWith(path_.string()), Not(HasSubstr("\n"))));
      return message.substr(path_.string().size());
    }
    ADD_FAILURE() << "loaded:\n" << text;
    return {};
  }

  std::filesystem::path path_ =
      testing::TempDir() + "platform_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
};

/// Names of the links of a route, in order.
std::vector<std::string> names(const Platform& platform, const Route& route) {
  std::vector<std::string> all;
  for (const LinkId id : route) all.push_back(platform.link(id).name);
  return all;
}

DeviceId find(const Platform& platform, const std::string& name) {
  for (std::size_t d = 0; d < platform.devices.size(); ++d)
    if (platform.devices[d].name == name) return DeviceId(d);
  ADD_FAILURE() << name;
  return {};
}

const std::string two_sites = R"(name = "two"
description = "two sites"
[[site]]
name = "A"
network = {bandwidth = "10 Gbps", latency = "0.1 ms"}
uplink = {bandwidth = "100 Mbps", latency = "2 ms"}
downlink = {bandwidth = "300 Mbps", latency = "3 ms"}
[[site.host]]
name = "a"
count = 2
gpu = "RTX 4090"
gpus = 2
bus = {bandwidth = "80 Gbps", latency = "10 us"}
[[site]]
name = "B"
uplink = {bandwidth = "8 Mbps", latency = "20 ms"}
downlink = {bandwidth = "50 Mbps", latency = "20 ms"}
[[site.host]]
name = "b"
gpu = "RTX 3090"
)";

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

const std::string site_matrix = R"(name = "m"
[[site]]
name = "E"
[[site.host]]
name = "e"
count = 2
gpu = "A40"
[[site]]
name = "W"
[[site.host]]
name = "w"
gpu = "A40"
gpus = 2
bus = {bandwidth = "100 Gbps", latency = "10 us"}
[matrix]
level = "site"
names = ["E", "W"]
bandwidth_gbps = [[10, 0.15], [1.17, 20]]
latency_ms = [[0.1, 60], [50, 0.2]]
)";

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

/// `text` with the first `from` replaced.
std::string mutate(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Mutation {
  const std::string* file;
  const char *from, *to;
  std::vector<const char*> expected;
};

TEST_F(PlatformFile, EveryOneLineFaultNamesItsPlace) {
  const std::string *a = &two_sites, *m = &site_matrix;
  const std::vector<Mutation> table = {
      // units and ranges (G24 and its kinds)
      {a, "10 Gbps", "0 Gbps", {":5: site.network.bandwidth: ", "\"0 Gbps\"", "above zero"}},
      {a, "10 Gbps", "-10 Gbps", {":5: site.network.bandwidth: ", "\"-10 Gbps\"", "negative"}},
      {a, "10 Gbps", "nan Gbps", {":5: site.network.bandwidth: ", "\"nan Gbps\"", "not finite"}},
      {a, "10 Gbps", "1e30 Gbps", {":5: site.network.bandwidth: ", "\"1e30 Gbps\"", "out of range"}},
      {a, "10 Gbps", "10", {":5: site.network.bandwidth: ", "\"10\" has no unit"}},
      {a, "\"10 Gbps\"", "10", {":5: site.network.bandwidth: ", "\"10\" has no unit"}},
      {a, "10 Gbps", "10 GB", {":5: site.network.bandwidth: ", "unknown unit \"GB\""}},
      {a, "2 ms", "-2 ms", {":6: site.uplink.latency: ", "\"-2 ms\"", "negative"}},
      {a, "2 ms", "nan ms", {":6: site.uplink.latency: ", "not finite"}},
      {a, "2 ms", "2", {":6: site.uplink.latency: ", "has no unit"}},
      {a, "2 ms", "1e300 s", {":6: site.uplink.latency: ", "out of range"}},
      {m, "0.15", "0", {":18: matrix.bandwidth_gbps: E>W: \"0 Gbps\" must be above zero"}},
      {m, "0.15", "-1", {":18: matrix.bandwidth_gbps: E>W: \"-1 Gbps\" is negative"}},
      {m, "0.15", "nan", {":18: matrix.bandwidth_gbps: \"nan\" is not finite"}},
      {m, "0.15", "1e300", {":18: matrix.bandwidth_gbps: E>W: ", "out of range"}},
      {m, "50, 0.2", "-50, 0.2", {":19: matrix.latency_ms: W>E: \"-50 ms\" is negative"}},
      {m, "[10, 0.15]", "[0, 0.15]", {":18: matrix.bandwidth_gbps: E>E: \"0 Gbps\" must be above zero"}},
      // names and keys
      {a, "bandwidth = \"10", "bandwith = \"10", {":5: site.network.bandwith: ", "did you mean \"bandwidth\""}},
      {a, "uplink =", "uplnk =", {":6: site.uplnk: ", "did you mean \"uplink\""}},
      {a, "[[site]]\nname = \"B\"", "[[sites]]\nname = \"B\"", {":14: sites: ", "did you mean \"site\""}},
      {a, "[[site.host]]", "[[site.hosts]]", {":8: site.hosts: ", "did you mean \"host\""}},
      {a, "gpus = 2", "gpu_count = 2", {":12: site.host.gpu_count: ", "not known"}},
      {a, "RTX 4090", "RTX 4091", {":11: site.host.gpu: \"RTX 4091\" is not known; did you mean \"RTX 4090\""}},
      {a, "RTX 4090", "4090", {":11: site.host.gpu: \"4090\" is not known; did you mean \"RTX 4090\""}},
      {a, "name = \"two\"", "", {": name: is missing"}},
      {a, "name = \"A\"", "", {":3: site.name: is missing"}},
      {a, "name = \"A\"", "name = \"\"", {":4: site.name: \"\" is not a name"}},
      {a, "name = \"A\"", "name = \"A>B\"", {":4: site.name: \"A>B\" is not a name"}},
      {a, "name = \"A\"", "name = \"A\\nB\"", {":4: site.name: \"A\\nB\" is not a name"}},
      {a, "name = \"A\"", "name = \"B\"", {":15: site.name: \"B\" is the name of two sites"}},
      {a, "name = \"b\"", "name = \"a1\"", {":19: site.host.name: \"a1\" is the name of two hosts"}},
      {a, "name = \"b\"", "name = \"a0.gpu1\"", {":19: site.host.name: \"a0.gpu1\" is the name of two devices"}},
      {a, "name = \"A\"", "name = 7", {":4: site.name: \"7\" is an integer; write a string"}},
      // counts
      {a, "count = 2", "count = 0", {":10: site.host.count: 0 is out of range"}},
      {a, "count = 2", "count = -1", {":10: site.host.count: -1 is out of range"}},
      {a, "count = 2", "count = 2.5", {":10: site.host.count: \"2.5\" is a real number"}},
      {a, "count = 2", "count = 1000000000000", {":10: site.host.count: 1000000000000 is out of range"}},
      {a, "count = 2", "count = 999999", {":10: site.host.count: makes more than 1000000 devices"}},
      {a, "gpus = 2", "gpus = 0", {":12: site.host.gpus: 0 is out of range"}},
      {a, "gpus = 2", "gpus = 100000", {":12: site.host.gpus: 100000 is out of range"}},
      // pairs without a route
      {a, "bus =", "#", {":8: site.host.bus: is missing; nothing joins the 2 devices of host \"a0\""}},
      {a, "network =", "#", {":8: site.host.network: is missing here and in site \"A\""}},
      {a, "uplink =", "#", {":7: site.downlink: has no uplink beside it"}},
      {a, "downlink =", "#", {":6: site.uplink: has no downlink beside it"}},
      {a,
       "uplink = {bandwidth = \"8 Mbps\", latency = \"20 ms\"}\ndownlink =",
       "#",
       {":14: site.uplink: ", "site \"B\""}},
      {m, "[[10, 0.15], [1.17, 20]]", "[[0, 0.15], [1.17, 0]]", {"E>E: \"0 Gbps\" must be above zero"}},
      // matrix
      {m,
       "level = \"site\"",
       "level = \"sites\"",
       {":16: matrix.level: \"sites\" is not known; did you mean \"site\""}},
      {m, "level = \"site\"", "", {":15: matrix.level: is missing"}},
      {m, "level = \"site\"", "level = \"host\"", {":18: matrix.bandwidth_gbps: is 2 x 2; the platform needs 3 x 3"}},
      {m, "[1.17, 20]", "[1.17]", {":18: matrix.bandwidth_gbps: has rows of 2 and of 1"}},
      {m, "[[0.1, 60], [50, 0.2]]", "[[0.1, 60]]", {":19: matrix.latency_ms: is 1 x 2; the platform needs 2 x 2"}},
      {m, "[[0.1, 60], [50, 0.2]]", "[]", {":19: matrix.latency_ms: is 0 x 0"}},
      {m, "[\"E\", \"W\"]", "[\"W\", \"E\"]", {":17: matrix.names: \"W\" is number 1 where the file has \"E\""}},
      {m, "[\"E\", \"W\"]", "[\"E\"]", {":17: matrix.names: 1 names for 2 rows"}},
      {m, "latency_ms", "latency", {":19: matrix.latency: ", "did you mean \"latency_ms\""}},
      {m, "names =", "latency_us = [[1]]\nnames =", {"matrix.latency_us: stands beside latency_ms"}},
      {m, "names =", "diagonal = false\nnames =", {"E>E: the diagonal is not used here; write 0"}},
      {m, "names =", "diagonal = 1\nnames =", {":17: matrix.diagonal: \"1\" is an integer; write true or false"}},
  };
  for (const auto& [file, from, to, expected] : table) {
    const std::string message = fault(mutate(*file, from, to));
    for (const char* part : expected) EXPECT_THAT(message, HasSubstr(part)) << from << " -> " << to;
  }
}

TEST_F(PlatformFile, AnyDamageLoadsOrIsAnInputErrorOnOneLine) {
  // Bytes changed, cut out, doubled: a file that still loads has a route for every pair, all others name the file.
  std::mt19937_64 random(5);
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string text = round % 2 == 0 ? two_sites : site_matrix;
    for (std::uint64_t i = 0, edits = 1 + random() % 3; i < edits; ++i) {
      const std::size_t at = random() % text.size(), length = std::min(1 + random() % 12, text.size() - at);
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), length));
          break;
        default:
          text[at] = "0123456789-.e\"[]{}=\n"[random() % 20];
      }
    }
    try {
      const Platform p = load(text);
      for (std::size_t a = 0; a < std::min<std::size_t>(p.devices.size(), 20); ++a)
        EXPECT_TRUE(a == 0 || std::isfinite(route(p, DeviceId(0), DeviceId(a)).bandwidth.value));
    } catch (const InputError& error) {
      ++refused;
      EXPECT_THAT(error.what(), AllOf(testing::StartsWith(path_.string()), Not(HasSubstr("\n")))) << text;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST_F(PlatformFile, ADiagonalOfZerosNeedsAnotherWayInside) {
  const std::string none = mutate(mutate(mutate(site_matrix, "names =", "diagonal = false\nnames ="),
                                         "[[10, 0.15], [1.17, 20]]", "[[0, 0.15], [1.17, 0]]"),
                                  "[[0.1, 60], [50, 0.2]]", "[[0, 60], [50, 0]]");
  EXPECT_THAT(fault(none), HasSubstr(":4: site.host.network: is missing"));
  const Platform p =
      load(mutate(none, "gpu = \"A40\"", "gpu = \"A40\"\nnetwork = {bandwidth = \"1 Gbps\", latency = \"1 ms\"}"));
  EXPECT_THAT(names(p, route(p, DeviceId(0), DeviceId(1))), ElementsAre("e0.nic.out", "e1.nic.in"));
  EXPECT_THAT(names(p, route(p, DeviceId(0), DeviceId(2))), ElementsAre("e0.nic.out", "E>W", "w.gpu0.bus.in"));
}

TEST_F(PlatformFile, ABusBesideAHostDiagonalIsRefused) {
  const std::string hosts =
      "name = \"m\"\n[[site]]\nname = \"s\"\n[[site.host]]\nname = \"h\"\ngpu = \"T4\"\ngpus = 2\n"
      "bus = {bandwidth = \"1 Gbps\", latency = \"0 s\"}\n"
      "[matrix]\nlevel = \"host\"\nbandwidth_mbps = [[900]]\nlatency_us = [[1]]\n";
  EXPECT_THAT(fault(hosts), HasSubstr(":8: site.host.bus: serves the same pairs as the diagonal"));
  EXPECT_THAT(fault(mutate(hosts, "level = \"host\"", "level = \"device\"\ndiagonal = true")),
              HasSubstr("matrix.diagonal: can't be used where level = \"device\""));
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
    return "{bandwidth = \"" + std::to_string(draw(1, 1000)) + " Mbps\", latency = \"" + std::to_string(draw(0, 90)) +
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
  return text + "[matrix]\nlevel = \"site\"\nbandwidth_mbps = " + rows(1, 1000) + "latency_ms = " + rows(0, 90);
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
