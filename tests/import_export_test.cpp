// Measurements become platform files that load again; platforms become SimGrid XML.
#include "core/platform/import_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <regex>

#include "core/base/error.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ImportExport : public testing::Test {
 protected:
  ImportExport() { std::filesystem::create_directories(directory_); }
  ~ImportExport() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return directory_ / name;
  }

  Platform load(const std::string& text) { return load_platform(write("platform.toml", text).string()); }

  std::string fault(const std::function<void()>& use) {
    try {
      use();
    } catch (const InputError& error) {
      std::string text = error.what();
      EXPECT_THAT(text, Not(HasSubstr("\n")));
      const std::string prefix = directory_.string() + "/";
      if (const auto at = text.find(prefix); at != std::string::npos) text.erase(at, prefix.size());
      return text;
    }
    ADD_FAILURE() << "no InputError";
    return {};
  }

  std::string csv_fault(const std::string& text) {
    return fault([&] { import_csv(write("m.csv", text), {}); });
  }

  std::filesystem::path directory_ =
      testing::TempDir() + "import_export_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ImportExport, CsvGivesAPlatformWithTheSameRoutes) {
  const Platform p = load(import_csv(write("m.csv",
                                           "\xef\xbb\xbf"
                                           "from,to,bandwidth,latency\r\n"
                                           "Oregon, Tokyo, 0.523 Gbps, 96 ms\r\n"
                                           "Tokyo,Oregon,300 Mbps,97 ms\r\n\r\n"),
                                     {"two", "T4"}));
  EXPECT_EQ(p.name, "two");
  ASSERT_EQ(p.devices.size(), 2u);
  EXPECT_EQ(p.devices[0].name, "Oregon");
  EXPECT_EQ(p.gpu_of(DeviceId(1)).name, "T4");
  EXPECT_DOUBLE_EQ(route(p, DeviceId(0), DeviceId(1)).bandwidth.value, 0.523e9 / 8);
  EXPECT_DOUBLE_EQ(route(p, DeviceId(0), DeviceId(1)).latency.value, 96e-3);
  EXPECT_DOUBLE_EQ(route(p, DeviceId(1), DeviceId(0)).bandwidth.value, 300e6 / 8);
  EXPECT_DOUBLE_EQ(route(p, DeviceId(1), DeviceId(0)).latency.value, 97e-3);
  EXPECT_EQ(describe_platform(p).back(), "ok");
}

TEST_F(ImportExport, CsvOfRandomPairsRoundTrips) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::size_t n = 2 + random() % 6;
    std::vector<double> bits(n * n), us(n * n);
    std::string text = "from,to,bandwidth,latency\n";
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        bits[i * n + j] = std::uniform_real_distribution(1e3, 1e11)(random);
        us[i * n + j] = std::uniform_real_distribution(0.0, 1e6)(random);
        text += "\"quoted\" \\" + std::to_string(i) + ",\"quoted\" \\" + std::to_string(j) + "," +
                std::to_string(bits[i * n + j]) + " bps," + std::to_string(us[i * n + j]) + " us\n";
      }
    const Platform p = load(import_csv(write("m.csv", text), {}));
    ASSERT_EQ(p.devices.size(), n);
    EXPECT_EQ(p.devices[0].name, "\"quoted\" \\0");  // a name is only text
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const Route way = route(p, DeviceId(i), DeviceId(j));
        EXPECT_NEAR(way.bandwidth.value * 8 / bits[i * n + j], 1, 1e-9);
        EXPECT_NEAR(way.latency.value * 1e6, us[i * n + j], 1e-5);
        EXPECT_FALSE(p.link(way.links[0]).shared);
      }
  }
}

TEST_F(ImportExport, CsvWithBothEndsEqualGivesTheDiagonal) {
  const std::string all = "from,to,bandwidth,latency\nA,A,10 Gbps,0.1 ms\nA,B,1 Gbps,5 ms\nB,A,1 Gbps,5 ms\n";
  const std::string text = import_csv(write("m.csv", all + "B,B,20 Gbps,0.2 ms\n"), {});
  // Two devices at A use the measured entry.
  const Platform p = load(std::regex_replace(text, std::regex("name = \"A\"\ngpu"), "name = \"A\"\ncount = 2\ngpu"));
  EXPECT_DOUBLE_EQ(route(p, DeviceId(0), DeviceId(1)).bandwidth.value, 10e9 / 8);
  EXPECT_EQ(csv_fault(all), "m.csv: \"B>B\" is not measured, others with themselves are; measure all or none");
}

TEST_F(ImportExport, CsvFaultsNameLineAndColumn) {
  const std::string head = "from,to,bandwidth,latency\n", back = "B,A,1 Gbps,5 ms\n";
  EXPECT_EQ(csv_fault(""), "m.csv: is empty");
  EXPECT_EQ(csv_fault(head), "m.csv: has no rows below its header");
  EXPECT_EQ(csv_fault("A,B,1 Gbps,5 ms\n"),
            "m.csv:1: \"A,B,1 Gbps,5 ms\" is not the header; write \"from,to,bandwidth,latency\"");
  EXPECT_EQ(csv_fault(head + "A,B,1 Gbps\n"),
            "m.csv:2: \"A,B,1 Gbps\" has 3 values; write \"from,to,bandwidth,latency\"");
  EXPECT_EQ(csv_fault(head + "\nA,B,1000,5 ms\n"),
            "m.csv:3: bandwidth: \"1000\" has no unit; write it like \"100 Mbps\"");
  EXPECT_THAT(csv_fault(head + "A,B,0 Mbps,5 ms\n"), HasSubstr("m.csv:2: bandwidth: \"0 Mbps\" must be above zero"));
  EXPECT_THAT(csv_fault(head + "A,B,nan Mbps,5 ms\n"), HasSubstr("m.csv:2: bandwidth: \"nan Mbps\" is not finite"));
  EXPECT_THAT(csv_fault(head + "A,B,1 Mbps,-5 ms\n"), HasSubstr("m.csv:2: latency: \"-5 ms\" is negative"));
  EXPECT_THAT(csv_fault(head + "A,B,1 Mbps,\n"), HasSubstr("m.csv:2: latency: \"\" is not a number with a unit"));
  EXPECT_THAT(csv_fault(head + ",B,1 Mbps,5 ms\n"), HasSubstr("m.csv:2: from: \"\" is not a name"));
  EXPECT_THAT(csv_fault(head + "A,B>C,1 Mbps,5 ms\n"), HasSubstr("m.csv:2: to: \"B>C\" is not a name"));
  EXPECT_EQ(csv_fault(head + "A,B,1 Gbps,5 ms\n"), "m.csv: \"B>A\" is not measured; each direction needs its own");
  EXPECT_EQ(csv_fault(head + "A,A,1 Gbps,5 ms\n"), "m.csv: measures no pair of two ends");
  EXPECT_EQ(csv_fault(head + "A,B,1 Gbps,5 ms\n" + back + "A,B,2 Gbps,5 ms\n"),
            "m.csv:4: to: \"A>B\" is measured twice");
  EXPECT_THAT(fault([&] {
                import_csv(write("m.csv", head + "A,B,1 Gbps,5 ms\n" + back), {"x", "RTX 3091"});
              }),
              HasSubstr("gpu: \"RTX 3091\" is not known; did you mean \"RTX 3090\""));
  EXPECT_THAT(fault([&] {
                import_csv(write("m.csv", head + "A,B,1 Gbps,5 ms\n" + back), {"", "T4"});
              }),
              HasSubstr("name: \"\" is not a name"));
  EXPECT_EQ(fault([&] { import_csv(directory_ / "none.csv", {}); }), "none.csv: no such file");
}

/// An `iperf3 -J` result, cut to the parts that matter and some that don't.
std::string iperf3(const std::string& local, const std::string& remote, double bits, const std::string& sender_rtt,
                   int reverse = 0) {
  return R"({"start": {"connected": [{"socket": 5, "local_host": ")" + local +
         R"(", "local_port": 45678, "remote_host": ")" + remote +
         R"(", "remote_port": 5201}], "version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 1,
"blksize": 131072, "omit": 0, "duration": 10, "bytes": 0, "blocks": 0, "reverse": )" +
         std::to_string(reverse) +
         R"(, "tos": 0}},
"intervals": [],
"end": {"streams": [{"sender": {"socket": 5, "start": 0, "end": 10.0, "seconds": 10.0, "bytes": 1250000000,
"bits_per_second": 1000000000.0, "retransmits": 0, "max_snd_cwnd": 1, )" +
         sender_rtt + R"("sender": true},
"receiver": {"socket": 5, "bits_per_second": 990000000.0, "sender": true}}],
"sum_sent": {"start": 0, "end": 10.0, "bits_per_second": 1000000000.0, "retransmits": 0, "sender": true},
"sum_received": {"start": 0, "end": 10.04, "bits_per_second": )" +
         std::to_string(bits) + R"(, "sender": true},
"cpu_utilization_percent": {"host_total": 1.5}}})";
}

TEST_F(ImportExport, Iperf3GivesBandwidthReceivedAndHalfTheRoundTrip) {
  const std::string there = "\"max_rtt\": 90000, \"min_rtt\": 40000, \"mean_rtt\": 60000, ";
  const Platform p =
      load(import_iperf3({write("ab.json", iperf3("10.0.0.1", "10.0.0.2", 8e6, there)),
                          write("ba.json", iperf3("10.0.0.2", "10.0.0.1", 4e6, "\"mean_rtt\": 50000, "))},
                         {"measured", "T4"}));
  ASSERT_EQ(p.devices.size(), 2u);
  EXPECT_EQ(p.devices[0].name, "10.0.0.1");
  const Route ab = route(p, DeviceId(0), DeviceId(1)), ba = route(p, DeviceId(1), DeviceId(0));
  EXPECT_DOUBLE_EQ(ab.bandwidth.value, 1e6);  // what arrived, not the 1 Gbps that was sent
  EXPECT_DOUBLE_EQ(ab.latency.value, 20e-3);  // the least round trip, 40 ms, halved: the mean holds our own queue
  EXPECT_DOUBLE_EQ(ba.latency.value, 25e-3);  // an iperf3 that gives only the mean
}

TEST_F(ImportExport, Iperf3ReverseSendsFromTheRemoteEnd) {
  // Both tests run at 10.0.0.1; the second one with --reverse, where the kernel's figures stay at the other end.
  const Platform p =
      load(import_iperf3({write("up.json", iperf3("10.0.0.1", "10.0.0.2", 8e6, "\"min_rtt\": 30000, ")),
                          write("down.json", iperf3("10.0.0.1", "10.0.0.2", 80e6, "\"mean_rtt\": 0, ", 1))},
                         {}));
  EXPECT_DOUBLE_EQ(route(p, DeviceId(0), DeviceId(1)).bandwidth.value, 1e6);
  EXPECT_DOUBLE_EQ(route(p, DeviceId(1), DeviceId(0)).bandwidth.value, 10e6);
  EXPECT_DOUBLE_EQ(route(p, DeviceId(1), DeviceId(0)).latency.value, 15e-3);  // that of the opposite direction
}

TEST_F(ImportExport, Iperf3FaultsNameFileAndKey) {
  const std::string rtt = "\"min_rtt\": 40000, ";
  const auto one = [&](const std::string& text) { return fault([&] { import_iperf3({write("r.json", text)}, {}); }); };
  EXPECT_THAT(one("{\"start\": {}, \"error\": \"unable to connect to server: Connection refused\"}"),
              AllOf(HasSubstr("r.json"), HasSubstr("unable to connect")));
  EXPECT_THAT(one("{}"), AllOf(HasSubstr("r.json"), HasSubstr("start")));
  EXPECT_THAT(one("not json"), HasSubstr("r.json"));
  EXPECT_THAT(one(""), HasSubstr("r.json: is empty"));
  EXPECT_THAT(one(iperf3("a", "b", 0, rtt)), AllOf(HasSubstr("bits_per_second"), HasSubstr("must be above zero")));
  EXPECT_THAT(one(iperf3("a", "b", -5, rtt)), AllOf(HasSubstr("bits_per_second"), HasSubstr("negative")));
  EXPECT_THAT(one(iperf3("a", "b", 1e6, "")), AllOf(HasSubstr("r.json"), HasSubstr("no round-trip time")));
  EXPECT_THAT(one(iperf3("a", "b", 1e6, rtt)), HasSubstr("\"b>a\" is not measured"));
  EXPECT_THAT(one(std::regex_replace(iperf3("a", "b", 1e6, rtt), std::regex("\"tos\""), "\"bidir\": 1, \"tos\"")),
              AllOf(HasSubstr("bidir"), HasSubstr("both directions")));
  EXPECT_THAT(one(std::regex_replace(iperf3("a", "b", 1e6, rtt), std::regex("\"TCP\""), "\"UDP\"")),
              AllOf(HasSubstr("protocol"), HasSubstr("\"UDP\""), HasSubstr("TCP")));
  EXPECT_THAT(fault([&] {
                const auto same = write("r.json", iperf3("a", "b", 1e6, rtt));
                import_iperf3({same, same}, {});
              }),
              HasSubstr("\"a>b\" is measured twice"));
  EXPECT_THAT(fault([] { import_iperf3({}, {}); }), HasSubstr("no result given"));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(ImportExport, SimGridXmlHasEveryHostLinkAndRoute) {
  const Platform p = load_platform("testbed-3");
  const std::string xml = export_simgrid_xml(p);
  EXPECT_EQ(count_of(xml, "<host "), 48u);
  EXPECT_EQ(count_of(xml, "<link "), p.links.size());
  EXPECT_EQ(count_of(xml, "<route "), 48u * 47u);
  // peak 82.6 TFLOP/s, half of it sustained
  EXPECT_THAT(xml, HasSubstr("<host id=\"a0.gpu0\" speed=\"4.13e+13f\">"));
  EXPECT_THAT(xml,
              HasSubstr("<link id=\"D0.uplink\" bandwidth=\"1e+06Bps\" latency=\"0.01s\" sharing_policy=\"SHARED\"/>"));
  EXPECT_THAT(xml, HasSubstr("<route src=\"d0\" dst=\"d1\" symmetrical=\"NO\"><link_ctn id=\"D0.uplink\"/><link_ctn "
                             "id=\"D1.downlink\"/></route>"));
}

TEST_F(ImportExport, SimGridXmlEscapesNamesAndMarksMeasuredPairs) {
  const std::string csv = "from,to,bandwidth,latency\nR&D \"x\" <1,B,1 Gbps,5 ms\nB,R&D \"x\" <1,1 Gbps,5 ms\n";
  const std::string xml = export_simgrid_xml(load(import_csv(write("m.csv", csv), {})));
  EXPECT_THAT(xml, HasSubstr("<host id=\"R&amp;D &quot;x&quot; &lt;1\""));
  EXPECT_THAT(xml, HasSubstr("<link id=\"B&gt;R&amp;D &quot;x&quot; &lt;1\""));
  EXPECT_EQ(count_of(xml, "sharing_policy=\"FATPIPE\""), 2u);
}

TEST_F(ImportExport, SimGridXmlRefusesWhatWouldNotFit) {
  const Platform p = load(
      "name = \"big\"\n[[site]]\nname = \"s\"\nnetwork = {bandwidth = \"1 Gbps\", latency = \"1 ms\"}\n[[site.host]]\n"
      "name = \"h\"\ncount = 1025\ngpu = \"T4\"\n");
  EXPECT_EQ(fault([&] { export_simgrid_xml(p); }),
            "big: devices: 1025 devices need 1049600 explicit routes; export at most 1024 of them (--devices)");
  EXPECT_EQ(count_of(export_simgrid_xml(first_devices(p, 3)), "<route "), 6u);
}

TEST_F(ImportExport, DescriptionTotalsAndFindsUnusedLinks) {
  const auto lines = describe_platform(load_platform("testbed-1"));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "24 devices on 6 hosts of 2 sites: 8 x RTX 4090 (24 GiB), 16 x RTX 2080 Ti (11 GiB)");
  EXPECT_EQ(lines[1], "368 GiB of GPU memory, 875 TFLOP/s peak in fp32");  // 8 x 24 + 16 x 11; 8 x 82.6 + 16 x 13.4
  EXPECT_EQ(lines[2], "64 links, 1 Gbps to 100 Gbps, 5 us to 4 ms");       // 24 buses, 6 NICs, 2 uplinks, two ways each
  EXPECT_EQ(lines[3], "ok");

  const auto warned = describe_platform(first_devices(load_platform("testbed-1"), 1));
  EXPECT_EQ(warned.back(), "ok, with 6 warnings");  // bus, NIC and uplink lead nowhere
  EXPECT_THAT(warned, testing::Contains("warning: no route crosses link \"A.downlink\""));
  EXPECT_EQ(describe_platform(first_devices(load_platform("dtfm-5"), 9)).back(),
            "ok, with 1 warning");  // "Virginia>Virginia"
}

/// The naive model: try every pair.
std::size_t num_uncrossed(const Platform& p) {
  std::vector<bool> crossed(p.links.size(), false);
  for (std::size_t a = 0; a < p.devices.size(); ++a)
    for (std::size_t b = 0; b < p.devices.size(); ++b)
      for (const LinkId id : route(p, DeviceId(a), DeviceId(b))) crossed[id.index()] = true;
  return static_cast<std::size_t>(std::ranges::count(crossed, false));
}

TEST_F(ImportExport, UnusedLinksAgreeWithTryingEveryPair) {
  for (const auto& row : list_platforms()) {
    const Platform whole = load_platform(row.name);
    for (std::size_t n = 1; n <= whole.devices.size(); ++n) {
      const Platform p = first_devices(whole, n);
      const auto lines = describe_platform(p);
      EXPECT_EQ(lines.size() - 4, num_uncrossed(p)) << row.name << " " << n;
    }
  }
}

}  // namespace
}  // namespace fusion
