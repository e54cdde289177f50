// What platform files are refused for, and what the refusal says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/platform_file.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
      {a, "2 ms", "0 ms", {":6: site.uplink.latency: \"0 ms\" must be above zero", "or \"none\""}},
      {a, "2 ms", "0 s", {":6: site.uplink.latency: \"0 s\" must be above zero"}},
      {a, "\"2 ms\"", "0", {":6: site.uplink.latency: ", "has no unit"}},
      {a, "2 ms", "nothing", {":6: site.uplink.latency: ", "is not a number with a unit"}},
      {m, "0.1, 60", "0.1, 0", {":19: matrix.latency_ms: E>W: \"0 ms\" must be above zero"}},
      {m, "0.1, 60", "0, 60", {":19: matrix.latency_ms: E>E: \"0 ms\" must be above zero"}},
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
      {m, "level = \"site\"", "level = \"region\"", {":16: matrix.level: ", "site \"E\" has no region"}},
      {a, "name = \"A\"", "name = \"A\"\nregion = \"R\"", {":5: site.region: means nothing here"}},
      {m, "name = \"E\"", "name = \"E\"\ncount = 0", {":4: site.count: 0 is out of range"}},
      {m, "name = \"E\"", "name = \"E\"\ncount = 600000", {"makes more than 1000000 devices"}},
      {m, "name = \"E\"", "name = \"E\"\ncount = 2", {"matrix.bandwidth_gbps: is 2 x 2; the platform needs 3 x 3"}},
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
      "bus = {bandwidth = \"1 Gbps\", latency = \"1 us\"}\n"
      "[matrix]\nlevel = \"host\"\nbandwidth_mbps = [[900]]\nlatency_us = [[1]]\n";
  EXPECT_THAT(fault(hosts), HasSubstr(":8: site.host.bus: serves the same pairs as the diagonal"));
  EXPECT_THAT(fault(mutate(hosts, "level = \"host\"", "level = \"device\"\ndiagonal = true")),
              HasSubstr("matrix.diagonal: can't be used where level = \"device\""));
}

}  // namespace
}  // namespace fusion
