// From a run's options to a schedule.
#include "core/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plan/run_config.h"
#include "core/program/lower.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {

using testing::HasSubstr;

RunConfig small_run() {
  RunConfig config;
  config.model = "mlp";
  config.platform = "lan4";
  config.policy = "equal-number";
  return config;
}

TEST(Plan, EveryPolicyOrderAndCompressionGivesAValidSchedule) {
  RunConfig config = small_run();
  const Problem problem = load_problem(config);
  for (const PolicyRow& policy : policy_table())
    for (const OrderRow& order : order_table())
      for (const CompressionRow& compression : compression_table()) {
        config.policy = policy.name;
        config.order = order.name;
        config.compress = compression.name;
        const Schedule schedule = make_schedule(config, problem);
        EXPECT_NO_THROW(validate(schedule, problem.graph, problem.platform, "x")) << policy.name << compression.name;
        EXPECT_GT(schedule.predicted_iteration, Seconds(0));
        EXPECT_EQ(schedule, make_schedule(config, problem)) << policy.name << compression.name;
      }
}

TEST(Plan, ScheduleSaysWhatWasAskedFor) {
  RunConfig config = small_run();
  config.compress = "adatopk";
  config.micro_batches = 3;
  config.devices = 2;
  config.seed = 8;
  const Schedule schedule = make_schedule(config, load_problem(config));
  EXPECT_EQ(schedule.model, "mlp");
  EXPECT_EQ(schedule.compress, "adatopk:100");
  EXPECT_EQ(schedule.micro_batches, 3);
  EXPECT_EQ(schedule.platform_devices, 2u);
  EXPECT_EQ(schedule.seed, 8u);
}

TEST(Plan, BandwidthReplacesThatOfEveryLinkBetweenHostsAndIsKeptInTheSchedule) {
  RunConfig config = small_run();
  config.platform = "testbed-1";  // hosts of several GPUs on a bus
  const Platform as_written = load_platform(config.platform);
  config.bandwidth = "8 Mbps";
  const Problem problem = load_problem(config);
  std::size_t buses = 0;
  for (const auto& bus : problem.platform.buses) {
    if (!bus) continue;
    EXPECT_EQ(problem.platform.link(bus->out), as_written.link(bus->out));
    ++buses;
  }
  EXPECT_GT(buses, 0u);
  const std::size_t last = problem.platform.devices.size() - 1;
  EXPECT_EQ(route(problem.platform, DeviceId(0UL), DeviceId(last)).bandwidth, BytesPerSecond(1e6));
  EXPECT_EQ(make_schedule(config, problem).platform_bandwidth, "8 Mbps");
}

// The diagonal of a matrix of hosts serves pairs inside one host.
TEST(Plan, BandwidthLeavesLinksInsideAHostOfAMatrixAlone) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "p.toml";
  write_text(file,
             "name = \"p\"\ndescription = \"two hosts of two\"\n[[site]]\nname = \"s\"\n[[site.host]]\nname = "
             "\"h\"\ncount = 2\ngpu = \"A40\"\ngpus = 2\n[matrix]\nlevel = \"host\"\nshared = false\n"
             "bandwidth_mbps = [[9000, 100], [100, 9000]]\nlatency_ms = [[0.001, 10], [10, 0.001]]\n");
  Platform platform = load_platform(file.string());
  ASSERT_EQ(platform.devices.size(), 4u);
  set_bandwidth(platform, BytesPerSecond(1e6));
  for (std::size_t from = 0; from < 4; ++from)
    for (std::size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      const bool same = platform.devices[from].host == platform.devices[to].host;
      EXPECT_EQ(route(platform, DeviceId(from), DeviceId(to)).bandwidth, BytesPerSecond(same ? 9000e6 / 8 : 1e6));
    }
}

// What a --config file asks for is told with its line; what a flag asks for is not.
TEST(Plan, AFaultOfTheProblemNamesWhereItWasAskedFor) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "run.toml").string(), own = (folder.path() / "p.toml").string();
  const auto fault = [](const RunConfig& config) -> std::string {
    try {
      load_problem(config);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto configured = [&](const std::string& text) {
    write_text(file, text);
    RunConfig config;
    load_run_config(file, config);
    return config;
  };
  using testing::StartsWith;
  EXPECT_THAT(fault(configured("model = \"gtp2\"\nplatform = \"lan4\"\n")), StartsWith(file + ":1: model: \"gtp2\""));
  EXPECT_THAT(fault(configured("model = \"mlp\"\nplatform = \"lan5\"\n")), StartsWith(file + ":2: platform: \"lan5\""));
  EXPECT_THAT(fault(configured("model = \"mlp\"\nplatform = \"lan4\"\ndevices = 9\n")),
              StartsWith(file + ":2: lan4: devices: 9"));
  write_text(own, "name = \"p\"\nsize = 3\n");
  RunConfig config = configured("model = \"mlp\"\nplatform = \"" + own + "\"\n");
  EXPECT_THAT(fault(config), StartsWith(file + ":2: " + own + ":"));
  set_option(config, "platform", "lan5");  // a flag
  EXPECT_THAT(fault(config), StartsWith("platform: \"lan5\""));
}

TEST(Plan, PrecisionDecidesTheGraphsDType) {
  RunConfig config = small_run();
  config.training.precision = Precision::bf16;
  const Problem problem = load_problem(config);
  EXPECT_EQ(problem.graph.dtype, DType::bf16);
  EXPECT_EQ(make_schedule(config, problem).model_options.dtype, DType::bf16);
}

TEST(Plan, CompressionShortensThePredictionOnASlowLink) {
  RunConfig config = small_run();
  config.model = "gpt2";
  const Problem problem = load_problem(config);
  const auto predicted = [&](const char* compress) {
    config.compress = compress;
    return make_schedule(config, problem).predicted_iteration;
  };
  EXPECT_LT(predicted("fp16"), predicted("none"));
  EXPECT_LT(predicted("adatopk:100"), predicted("fp16"));
  EXPECT_LE(predicted("adatopk-slack"), predicted("none"));
}

TEST(Plan, ModelThatFitsNoDeviceIsInfeasible) {
  RunConfig config = small_run();
  config.model = "gpt2-xl";
  config.devices = 1;
  config.model_options.micro_batch = 64;
  try {
    make_schedule(config, load_problem(config));
    FAIL();
  } catch (const Infeasible& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("needs"));
    EXPECT_THAT(fault.what(), HasSubstr("--recompute"));
  }
}

// Prediction and program count the second forward of recompute once each.
TEST(Plan, ProgramAndCostsAgreeOnTheTimeOfAPass) {
  for (const bool recompute : {false, true}) {
    RunConfig config = small_run();
    config.training.recompute = recompute;
    config.compress = "int8";
    const Problem problem = load_problem(config);
    const Schedule schedule = make_schedule(config, problem);
    const auto costs = stage_costs(schedule, problem.graph, problem.costs, problem.platform);
    std::vector<Seconds> busy(costs.size());
    for (const Task& task : lower(schedule, problem.graph, problem.costs, problem.platform).tasks)
      if (task.kind == TaskKind::compute) busy[task.stage.index()] += task.duration + task.codec_duration;
    for (std::size_t s = 0; s < costs.size(); ++s)
      EXPECT_NEAR(busy[s].value, costs[s].pass().value, 1e-12) << recompute << " " << s;
  }
}

TEST(Plan, RefusesWhatItDoesNotKnow) {
  RunConfig config = small_run();
  const Problem problem = load_problem(config);
  config.policy = "op-fense";
  EXPECT_THROW(make_schedule(config, problem), InputError);
  config = small_run();
  config.compress = "adatopk:0";
  EXPECT_THROW(make_schedule(config, problem), InputError);
  config = small_run();
  config.order = "1f1c";
  EXPECT_THROW(make_schedule(config, problem), InputError);
  config = small_run();
  config.platform = "lan5";
  EXPECT_THROW(load_problem(config), InputError);
  config = small_run();
  config.devices = 5;
  EXPECT_THROW(load_problem(config), InputError);
}

}  // namespace
}  // namespace fusion
