// A platform file as a text, loaded or refused, and two that tests start from.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/platform/platform.h"

namespace fusion {

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
      EXPECT_THAT(message, testing::AllOf(testing::StartsWith(path_.string()), testing::Not(testing::HasSubstr("\n"))));
      return message.substr(path_.string().size());
    }
    ADD_FAILURE() << "loaded:\n" << text;
    return {};
  }

  std::filesystem::path path_ =
      testing::TempDir() + "platform_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
};

/// Names of the links of a route, in order.
inline std::vector<std::string> names(const Platform& platform, const Route& route) {
  std::vector<std::string> all;
  for (const LinkId id : route) all.push_back(platform.link(id).name);
  return all;
}

inline DeviceId find(const Platform& platform, const std::string& name) {
  for (std::size_t d = 0; d < platform.devices.size(); ++d)
    if (platform.devices[d].name == name) return DeviceId(d);
  ADD_FAILURE() << name;
  return {};
}

inline const std::string two_sites = R"(name = "two"
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

inline const std::string site_matrix = R"(name = "m"
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

}  // namespace fusion
