// Reports: what follows from a program and its measures, written and read back, and what is refused.
#include "core/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/synthetic.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two sites of two devices, a pipeline over all four, 3 micro-batches, messages of 1000 bytes, measures made up.
struct Case {
  Platform platform =
      make_platform({.num_devices = 4, .num_sites = 2, .nic = BytesPerSecond(1e4), .uplink = BytesPerSecond(2e3)});
  Program program = make_pipeline(platform, {.micro_batches = 3, .message = Bytes(1000)});
  Measured measured{Seconds(10), std::vector(4, Seconds(6)), std::vector(6, Seconds(2.5)), {}, {}};

  Case() {
    program.info.samples = 6;
    program.info.tokens = 60;
    program.info.seed = 9;
    program.info.policy = "op-fence";
    program.info.compress = "none";
    program.tasks[8].dense_bytes = Bytes(4000);  // the first send
  }
  Report report() const { return make_report(program, platform, "simgrid", "ideal: exact", measured); }
};

TEST(Report, FollowsFromProgramAndMeasures) {
  const Report report = Case().report();
  EXPECT_EQ(report.devices[2].name, "d2");
  EXPECT_EQ(report.devices[2].stage, "stage 2");
  EXPECT_DOUBLE_EQ(report.devices[2].bubble_fraction, 0.4);  // 1 - 6 / 10
  EXPECT_EQ(report.devices[2].memory, Bytes(24LL << 30));
  ASSERT_EQ(report.links.size(), 6u);  // 3 neighbours, both ways
  EXPECT_EQ(report.links[0].from, "d0");
  EXPECT_EQ(report.links[0].to, "d1");
  EXPECT_EQ(report.links[0].bytes, Bytes(3000));  // one message for each of 3 micro-batches
  EXPECT_EQ(report.links[0].dense_bytes, Bytes(12000));
  EXPECT_EQ(report.links[0].messages, 3u);
  EXPECT_DOUBLE_EQ(samples_per_second(report), 0.6);
  EXPECT_DOUBLE_EQ(tokens_per_second(report), 6);
}

TEST(Report, SharedLinksAddUpTheirChannels) {
  Case test;
  // d1's NIC out carries activations to d2 and gradients to d0: 2 x 3000 bytes of 1e4 x 10. The uplink of s0 carries
  // the activations alone: 3000 of 2e3 x 10.
  std::map<std::string, SharedLinkReport> links;
  for (const SharedLinkReport& link : test.report().shared_links) links[link.name] = link;
  EXPECT_EQ(links.at("d1.nic.out").bytes, Bytes(6000));
  EXPECT_DOUBLE_EQ(links.at("d1.nic.out").utilisation, 0.06);
  EXPECT_EQ(links.at("s0.out").bytes, Bytes(3000));
  EXPECT_DOUBLE_EQ(links.at("s0.out").utilisation, 0.15);
  // A link that gives each message all of it has no utilisation.
  for (Link& link : test.platform.links) link.shared = false;
  EXPECT_TRUE(test.report().shared_links.empty());
}

TEST(Report, IterationOfZeroSecondsDividesNothing) {
  Case test;
  test.measured.iteration = Seconds(0);
  const Report report = test.report();
  EXPECT_EQ(report.devices[0].bubble_fraction, 0);
  EXPECT_EQ(samples_per_second(report), 0);
  EXPECT_THAT(write_report(report), testing::Not(HasSubstr("null")));
}

void expect_equal(const Report& a, const Report& b) {
  EXPECT_EQ(a.engine, b.engine);
  EXPECT_EQ(a.network_profile, b.network_profile);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.info, b.info);
  EXPECT_EQ(a.iteration, b.iteration);
  EXPECT_EQ(a.devices, b.devices);
  EXPECT_EQ(a.links, b.links);
  EXPECT_EQ(a.shared_links, b.shared_links);
  EXPECT_EQ(a.loss, b.loss);
}

TEST(Report, WrittenAndReadBackIsTheSame) {
  const TemporaryFolder folder;
  Report report = Case().report();
  report.iteration = Seconds(0.1 + 0.2);  // not a short decimal
  for (const std::vector<double>& loss : {std::vector<double>{}, {2.5, 1.25}}) {
    report.loss = loss;
    const std::string file = (folder.path() / "report.json").string();
    write_text(file, write_report(report));
    expect_equal(read_report(file), report);
    EXPECT_EQ(write_report(read_report(file)), write_report(report));
  }
}

TEST(Report, HasTheKeysOfTheContract) {
  const auto json = nlohmann::json::parse(write_report(Case().report()));
  for (const char* key : {"engine", "network_profile", "seed", "version", "model", "platform", "policy", "order",
                          "compress", "predicted_iteration_s", "iteration_s", "samples_per_s", "tokens_per_s",
                          "devices_used", "devices_available", "devices", "links"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const char* key : {"name", "busy_s", "bubble_fraction", "peak_memory_bytes"})
    EXPECT_TRUE(json["devices"][0].contains(key)) << key;
  for (const char* key : {"from", "to", "bytes", "dense_bytes", "busy_s"})
    EXPECT_TRUE(json["links"][0].contains(key)) << key;
  EXPECT_FALSE(json.contains("loss"));  // executed runs only
  EXPECT_EQ(json["devices_used"], 4);
}

TEST(Report, WhatIsNoReportIsRefused) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "report.json").string();
  const auto expect = [&](const std::string& text, const std::string& message) {
    write_text(file, text);
    EXPECT_THAT([&] { read_report(file); }, ThrowsMessage<InputError>(AllOf(HasSubstr(file), HasSubstr(message))));
  };
  const auto valid = nlohmann::ordered_json::parse(write_report(Case().report()));
  const auto changed = [&](const char* pointer, const nlohmann::ordered_json& value) {
    auto json = valid;
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return json.dump();
  };
  EXPECT_THROW(read_report((folder.path() / "none.json").string()), InputError);
  expect("{}", "engine");
  expect("[1]", "");
  expect("{\"engine\": ", "");
  expect(changed("/iteration_s", -1), "iteration_s");
  expect(changed("/iteration_s", "3 s"), "iteration_s");
  expect(changed("/iteration_s", 0), "iteration_s");
  expect(changed("/micro_batches", 0), "micro_batches");
  expect(changed("/devices/1/busy_s", nullptr), "busy_s");
  expect(changed("/devices/1/bussy_s", 1), "bussy_s");
  expect(changed("/links/0/bytes", 1.5), "bytes");
  expect(changed("/links/0/messages", -1), "messages");
  expect(changed("/devices_used", 3), "devices_used");
  expect(changed("/bandwith", 1), "bandwith");
  for (const auto& [key, value] : valid.items()) {
    auto json = valid;
    json.erase(key);
    expect(json.dump(), key);
  }
}

}  // namespace
}  // namespace fusion
