// The table of run options: flags, files, and what is refused.
#include "core/plan/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {

using testing::HasSubstr;

std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

class RunConfigTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& text) {
    const auto path = folder.path() / "run.toml";
    std::ofstream(path) << text;
    return path;
  }
  std::string fault_in_file(const std::string& text) {
    return fault_of([&] { load_run_config(file(text), config); });
  }

  TemporaryFolder folder;
  RunConfig config;
};

TEST_F(RunConfigTest, EveryOptionIsReadBack) {
  for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{{"model", "a \"b\" \\ c.json"},
                                                                                   {"platform", "lan4"},
                                                                                   {"policy", "equal-compute"},
                                                                                   {"order", "gpipe"},
                                                                                   {"compress", "adatopk:30"},
                                                                                   {"micro-batches", "65535"},
                                                                                   {"micro-batch", "3"},
                                                                                   {"seq", "128"},
                                                                                   {"image-size", "64"},
                                                                                   {"devices", "5"},
                                                                                   {"bandwidth", "100 Mbps"},
                                                                                   {"optimizer", "sgd"},
                                                                                   {"precision", "bf16"},
                                                                                   {"recompute", "true"},
                                                                                   {"seed", "9223372036854775807"}})
    set_option(config, key, value);
  EXPECT_EQ(config.micro_batches, 65535);
  EXPECT_EQ(config.model_options.sequence_length, 128);
  EXPECT_EQ(config.training.optimizer, Optimizer::sgd);
  EXPECT_TRUE(config.training.recompute);

  RunConfig read;
  load_run_config(file(write_run_config(config)), read);
  EXPECT_EQ(write_run_config(read), write_run_config(config));
  for (const RunOption& option : run_options()) EXPECT_EQ(option.get(read), option.get(config)) << option.key;
  EXPECT_EQ(read.model, "a \"b\" \\ c.json");
}

TEST_F(RunConfigTest, DefaultsAreThoseOfTheStruct) {
  config.model = "gpt2";
  config.platform = "lan4";
  RunConfig read;
  load_run_config(file("model = \"gpt2\"\nplatform = \"lan4\"\n"), read);
  EXPECT_EQ(write_run_config(read), write_run_config(config));
}

TEST_F(RunConfigTest, FileGoesOverWhatStoodBefore) {
  config.micro_batches = 3;
  config.seed = 5;
  load_run_config(file("micro-batches = 4\n"), config);
  EXPECT_EQ(config.micro_batches, 4);
  EXPECT_EQ(config.seed, 5u);
}

TEST_F(RunConfigTest, RefusesBadValuesByKeyValueAndRange) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> cases = {
      {"model", {""}},
      {"platform", {""}},
      {"policy", {"", "op-fenc", "all"}},
      {"order", {"", "1f2b"}},
      {"compress", {"", "zip", "adatopkk", "none:3"}},
      {"micro-batches", {"", "0", "-1", "65536", "1.5", "8x", " 8", "0x8", "99999999999999999999", "nan"}},
      {"micro-batch", {"0", "-2", "1000001", "one"}},
      {"seq", {"-1", "16777217", ""}},
      {"image-size", {"-1", "16777217"}},
      {"devices", {"-1", "two", "1e3"}},
      {"bandwidth", {"8", "fast", "-1 Mbps", "0 bps", "nan Gbps"}},
      {"optimizer", {"", "adamw"}},
      {"precision", {"fp8", "FP16"}},
      {"recompute", {"", "yes", "1", "True"}},
      {"replicas", {"0", "-1", "1.5", "two"}},
      {"collective", {"", "rign"}},
      {"seed", {"-1", "9223372036854775808", ""}}};
  EXPECT_EQ(cases.size(), run_options().size());
  for (const auto& [key, values] : cases)
    for (const char* value : values) {
      const std::string fault = fault_of([&] { set_option(config, key, value); });
      EXPECT_THAT(fault, HasSubstr(key)) << value;
      EXPECT_THAT(fault, HasSubstr(value)) << key;
    }
  EXPECT_THAT(fault_of([&] { set_option(config, "micro-batches", "0"); }),
              HasSubstr("micro-batches: \"0\" is not a whole number from 1 to 65535"));
  EXPECT_THAT(fault_of([&] { set_option(config, "micro-batchs", "1"); }), HasSubstr("did you mean \"micro-batches\""));
}

TEST_F(RunConfigTest, FaultsInAFileNameFileLineAndKey) {
  EXPECT_THAT(fault_in_file("model = \"gpt2\"\nmicro-batches = 0\n"), HasSubstr("run.toml:2: micro-batches"));
  EXPECT_THAT(fault_in_file("micro-batchs = 2\n"), HasSubstr("\"micro-batches\"?"));
  EXPECT_THAT(fault_in_file("micro_batches = 2\n"), HasSubstr("did you mean \"micro-batches\""));
  EXPECT_THAT(fault_in_file("polcy = \"random\"\n"), HasSubstr("did you mean \"policy\""));
  for (const char* text : {"micro-batches = \"8\"", "micro-batches = 8.0", "micro-batches = true", "micro-batches = []",
                           "recompute = 1", "recompute = \"true\"", "model = 7", "seed = -1", "compress = 100",
                           "devices = 1\ndevices = 2", "order = \"1f2b\"", "[run]\nseed = 1", "= 3", ""})
    EXPECT_NE(fault_in_file(text), "") << text;
  EXPECT_NE(fault_of([&] { load_run_config(folder.path() / "absent.toml", config); }), "");
}

}  // namespace
}  // namespace fusion
