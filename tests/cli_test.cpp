// fusion-sim as its users meet it: exit codes, one clear line for what is wrong, the JSON contract, the same bytes
// twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/file.h"
#include "tests/support/run_program.h"

namespace fusion {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string program = FUSION_SIM_PROGRAM;

Outcome fusion_sim(const std::string& arguments) { return run_program(program + " " + arguments); }

/// A good small run, and its parts to vary.
const std::string small_run = " --model mlp --platform lan4 ";

class Cli : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string write(const std::string& name, std::string_view text) const {
    write_text(path(name), text);
    return path(name);
  }
  TemporaryFolder folder_;
};

void expect_one_line(const Outcome& outcome, int exit_code, const testing::Matcher<const std::string&>& says) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, says);
}

TEST_F(Cli, EveryCommandTeaches) {
  for (const char* command : {"", "models", "platforms", "policies", "orders", "codecs", "collectives", "estimate",
                              "plan", "simulate", "rank", "compare", "report", "platform", "platform check",
                              "platform pairs", "platform import", "platform export"}) {
    const Outcome outcome = fusion_sim(std::string(command) + " --help");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Usage")) << command;
  }
  for (const char* command : {"estimate", "plan", "simulate", "rank", "compare", "report", "platform"})
    EXPECT_THAT(fusion_sim(std::string(command) + " --help").out, HasSubstr("Example")) << command;
  EXPECT_THAT(fusion_sim("--version").out, HasSubstr("fusion-sim 0."));
}

// lan4: each device's network link has 1 Gbps and half of 0.2 ms; a pair crosses one out and one in.
TEST_F(Cli, PairsOfAPlatformAreItsRoutes) {
  const json answer = json::parse(fusion_sim("platform pairs lan4 --devices 3 --json").out);
  EXPECT_EQ(answer["devices"], (json{"node0", "node1", "node2"}));
  ASSERT_EQ(answer["pairs"].size(), 6u);  // 3 x 2 directed
  for (const json& pair : answer["pairs"]) {
    EXPECT_DOUBLE_EQ(pair["bandwidth_bits_per_s"].get<double>(), 1e9);
    EXPECT_DOUBLE_EQ(pair["latency_s"].get<double>(), 2e-4);
    EXPECT_EQ(pair["links"].size(), 2u);
    for (const json& name : pair["links"])
      EXPECT_TRUE(std::ranges::any_of(answer["links"], [&](const json& link) { return link["name"] == name; })) << name;
  }
  EXPECT_THAT(fusion_sim("platform pairs pair").out, AllOf(HasSubstr("100 Mbps"), HasSubstr("10 ms")));
  expect_one_line(fusion_sim("platform pairs lan4 --devices 5"), 3, HasSubstr("4"));
}

TEST_F(Cli, WrongUsageExitsTwoAndSuggests) {
  expect_one_line(fusion_sim(""), 2, HasSubstr("subcommand"));
  expect_one_line(fusion_sim("rnak"), 2, HasSubstr("did you mean \"rank\""));
  expect_one_line(fusion_sim("plan --modle gpt2"), 2, HasSubstr("did you mean \"--model\""));
  expect_one_line(fusion_sim("platform chekc x"), 2, HasSubstr("did you mean \"check\""));
  expect_one_line(fusion_sim("platform check lan4 --jsn"), 2, HasSubstr("did you mean \"--json\""));
  expect_one_line(fusion_sim("plan --platform lan4"), 2, HasSubstr("--model"));
  expect_one_line(fusion_sim("estimate"), 2, HasSubstr("--model"));
  expect_one_line(fusion_sim("simulate --plan x.json --model gpt2"), 2, HasSubstr("--plan"));
}

TEST_F(Cli, BadInputExitsThreeAndSaysWhatIsRight) {
  expect_one_line(fusion_sim("plan --model gtp2 --platform lan4"), 3, HasSubstr("did you mean \"gpt2\""));
  expect_one_line(fusion_sim("plan --model mlp --platform lan5"), 3, HasSubstr("\"lan4\""));
  expect_one_line(fusion_sim("plan" + small_run + "--policy op-fense"), 3, HasSubstr("\"op-fence\""));
  expect_one_line(fusion_sim("plan" + small_run + "--order 1f1"), 3, HasSubstr("\"1f1b\""));
  expect_one_line(fusion_sim("plan" + small_run + "--compress adatopk:0"), 3, HasSubstr("adatopk"));
  expect_one_line(fusion_sim("plan" + small_run + "--compress adatop:10"), 3, HasSubstr("adatopk"));
  expect_one_line(fusion_sim("plan" + small_run + "--devices 5"), 3, HasSubstr("4"));
  for (const char* value : {"0", "-1", "1.5", "x", "99999999999999999999", ""})
    expect_one_line(fusion_sim("plan" + small_run + "--micro-batches '" + value + "'"), 3, HasSubstr("micro-batches"));
  expect_one_line(fusion_sim("simulate" + small_run + "--network idael"), 3, HasSubstr("\"ideal\""));
  expect_one_line(fusion_sim("estimate --model mlp --device 'RTX 409'"), 3, HasSubstr("RTX 4090"));
  expect_one_line(fusion_sim("rank" + small_run + "--policies op-fence,equal"), 3, HasSubstr("equal"));
  for (const char* flag : {"--policies op-fence,", "--policies ''", "--compress none,,fp16"})
    expect_one_line(fusion_sim("rank" + small_run + flag), 3, HasSubstr(flag[2] == 'p' ? "--policies" : "--compress"));
  expect_one_line(fusion_sim("rank" + small_run + "--compress none,adatop"), 3, HasSubstr("adatopk"));
  expect_one_line(fusion_sim("rank" + small_run + "--network tpc"), 3, HasSubstr("\"tcp\""));
  expect_one_line(fusion_sim("simulate --plan " + path("gone.json")), 3, HasSubstr("no such file"));
  expect_one_line(fusion_sim("compare " + path("gone.json") + " x"), 3, HasSubstr("no such file"));
}

TEST_F(Cli, HostileFilesExitThree) {
  const std::string files[] = {write("text.json", "not json"), write("list.json", "[1, 2]"), write("object.json", "{}"),
                               write("deep.json", std::string(100, '[')),
                               write("binary.json", std::string_view("\x00\x01\x02\xff", 4))};
  for (const std::string& file : files) {
    expect_one_line(fusion_sim("simulate --plan " + file), 3, HasSubstr(file));
    expect_one_line(fusion_sim("compare " + file + " " + file), 3, HasSubstr(file));
    expect_one_line(fusion_sim("estimate --model " + file), 3, HasSubstr(file));
  }
  const std::string config = write("run.toml", "model = \"mlp\"\nplatfrom = \"lan4\"\n");
  expect_one_line(fusion_sim("plan --config " + config), 3, AllOf(HasSubstr("run.toml:2"), HasSubstr("\"platform\"")));
}

TEST_F(Cli, Golden_G21_MisspeltKeyIsNamedWithItsLine) {
  const std::string file = write("p.toml", "name = \"p\"\n[[site]]\nname = \"a\"\nuplink = {bandwith = \"1 Gbps\"}\n");
  expect_one_line(fusion_sim("platform check " + file), 3, AllOf(HasSubstr("p.toml:4"), HasSubstr("bandwi")));
}

TEST_F(Cli, WhatFitsNowhereExitsFour) {
  const std::string file = std::string(FUSION_SOURCE_DIRECTORY) + "/experiments/models/llama-2-7b/config.json";
  expect_one_line(fusion_sim("plan --model " + file + " --platform pair"), 4, HasSubstr("GiB"));
}

TEST_F(Cli, EstimateGivesTheExactCounts) {
  const auto parameters = [](const std::string& model) {
    const Outcome outcome = fusion_sim("estimate --json --model " + model);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json gpt2 = parameters("gpt2");
  EXPECT_EQ(gpt2["parameters"], 124439808);
  // G12: 72 B s L h^2 (1 + s/(6h) + V/(12 L h)) with B=1, s=1024, L=12, h=768, V=50257.
  EXPECT_NEAR(gpt2["forward_flops"].get<double>() + gpt2["backward_flops"].get<double>(), 8.749449216e11, 1e3);
  EXPECT_GT(gpt2["activation_bytes"], 0);
  EXPECT_EQ(parameters("resnet101")["parameters"], 44549160);
  EXPECT_EQ(parameters("vgg16")["parameters"], 138357544);
}

TEST_F(Cli, PlanThenSimulateIsSimulate) {
  const std::string plan = path("s.json");
  ASSERT_EQ(fusion_sim("plan --policy equal-number" + small_run + "--compress int8 -o " + plan).exit_code, 0);
  const Outcome replayed = fusion_sim("simulate --json --plan " + plan);
  const Outcome direct = fusion_sim("simulate --json --policy equal-number --compress int8" + small_run);
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_EQ(replayed.out, direct.out);
}

TEST_F(Cli, BothEnginesGiveOneAnswer) {
  const std::string run = "simulate --policy equal-number --json" + small_run;
  const json native = json::parse(fusion_sim(run + " --engine native").out), simgrid = json::parse(fusion_sim(run).out);
  EXPECT_EQ(native["engine"], "native");
  EXPECT_EQ(simgrid["engine"], "simgrid");
  EXPECT_NEAR(native["iteration_s"].get<double>(), simgrid["iteration_s"].get<double>(), 1e-9);
  expect_one_line(fusion_sim(run + " --engine native --network tcp"), 3, HasSubstr("\"tcp\""));  // SimGrid's alone
  expect_one_line(fusion_sim(run + " --engine natve"), 3, HasSubstr("\"native\""));
}

// Three weeks: what a double tells apart there is more than the picosecond within which SimGrid joins events.
TEST_F(Cli, WeeksOfSimulatedTimeEnd) {
  const std::string run =
      "simulate --json --model gpt2 --platform testbed-2 --policy random --order gpipe --compress uniform-topk-raw:100 "
      "--micro-batches 5 --seed 177 --bandwidth \"1 kbps\"";
  const Outcome simgrid = fusion_sim(run);
  ASSERT_EQ(simgrid.exit_code, 0) << simgrid.err;
  const double iteration_s = json::parse(simgrid.out)["iteration_s"];
  EXPECT_GT(iteration_s, 1e6);
  EXPECT_NEAR(json::parse(fusion_sim(run + " --engine native").out)["iteration_s"].get<double>(), iteration_s,
              0.01 * iteration_s);
}

TEST_F(Cli, AnEditedPlanIsJudgedAnew) {
  const std::string plan = path("s.json");
  ASSERT_EQ(fusion_sim("plan --policy equal-number" + small_run + "-o " + plan).exit_code, 0);
  json edited = json::parse(read_text(plan));
  edited["predicted_iteration_s"] = 1e-9;  // not trusted
  const std::string lied = write("lied.json", edited.dump());
  EXPECT_EQ(fusion_sim("simulate --json --plan " + lied).out, fusion_sim("simulate --json --plan " + plan).out);
  edited["model_options"]["micro_batch"] = 100'000'000;  // activations of 4 kB x 1e8 fit no device
  expect_one_line(fusion_sim("simulate --plan " + write("big.json", edited.dump())), 4, HasSubstr("needs"));
}

TEST_F(Cli, AnAnswerThatCannotBePrintedIsAFault) {
  EXPECT_EQ(run_program("{ " + program + " models >/dev/full; }").exit_code, 5);
}

TEST_F(Cli, AKeyOfManyPartsIsBadInput) {
  std::string key = "a";
  for (int part = 0; part < 50000; ++part) key += ".a";
  expect_one_line(fusion_sim("platform check " + write("deep.toml", key + " = 1\n")), 3, HasSubstr("deep.toml:1"));
}

TEST_F(Cli, TheResolvedOptionsStandBesideTheResult) {
  const std::string plan = path("s.json"), again = path("t.json");
  ASSERT_EQ(fusion_sim("plan" + small_run + "--micro-batches 3 --policy equal-number -o " + plan).exit_code, 0);
  const Outcome outcome = fusion_sim("plan --config " + path("s.config.toml") + " -o " + again);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read_text(plan), read_text(again));
}

TEST_F(Cli, FlagsWinOverTheConfigFile) {
  const std::string config = write("run.toml", "model = \"mlp\"\nplatform = \"lan4\"\norder = \"gpipe\"\n");
  EXPECT_EQ(json::parse(fusion_sim("simulate --json --config " + config).out)["order"], "gpipe");
  EXPECT_EQ(json::parse(fusion_sim("simulate --json --order 1f1b --config " + config).out)["order"], "1f1b");
  const std::string again = write("again.toml", "model = \"mlp\"\nplatform = \"lan4\"\nrecompute = true\n");
  EXPECT_THAT(fusion_sim("plan --json --recompute=false --config " + again).out, HasSubstr("\"recompute\":false"));
}

TEST_F(Cli, ReportKeepsTheContract) {
  // equal-number uses every device, so that there are links.
  const json report = json::parse(fusion_sim("simulate --json --policy equal-number" + small_run).out);
  ASSERT_EQ(report["devices"].size(), 4u);
  ASSERT_FALSE(report["links"].empty());
  for (const char* key : {"engine", "network_profile", "seed", "version", "model", "platform", "policy", "order",
                          "compress", "predicted_iteration_s", "iteration_s", "samples_per_s", "devices_used",
                          "devices_available", "devices", "links"})
    EXPECT_TRUE(report.contains(key)) << key;
  for (const char* key : {"name", "busy_s", "bubble_fraction", "peak_memory_bytes"})
    EXPECT_TRUE(report["devices"][0].contains(key)) << key;
  for (const char* key : {"from", "to", "bytes", "dense_bytes", "busy_s"})
    EXPECT_TRUE(report["links"][0].contains(key)) << key;
  EXPECT_GT(report["iteration_s"], 0);
}

TEST_F(Cli, TwentyRunsGiveTheSameBytes) {
  const std::string command = "simulate --json --policy random --compress adatopk:10" + small_run;
  const std::string first = fusion_sim(command).out;
  for (int run = 1; run < 20; ++run) ASSERT_EQ(fusion_sim(command).out, first);
}

TEST_F(Cli, RankListsEveryPolicyWithEveryCompression) {
  const std::string file = path("ranking.json");
  const Outcome outcome = fusion_sim("rank --json" + small_run + "-o " + file);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json ranking = json::parse(outcome.out);
  std::set<std::string> policies, compressions;
  double slowest_so_far = 0;
  for (const json& row : ranking) {
    policies.insert(row["policy"]);
    compressions.insert(row["compress"]);
    EXPECT_GE(row["iteration_s"], slowest_so_far);  // fastest first
    slowest_so_far = row["iteration_s"];
    EXPECT_GT(row["speedup"], 0);
  }
  EXPECT_EQ(ranking.size(), policies.size() * compressions.size());
  EXPECT_EQ(policies.size(), json::parse(fusion_sim("policies --json").out).size());
  EXPECT_EQ(compressions.size(), json::parse(fusion_sim("codecs --json").out).size());
  EXPECT_EQ(json::parse(read_text(file)), ranking);
}

TEST_F(Cli, EveryOrderIsListedWrittenAndReadAgain) {
  const Outcome list = fusion_sim("orders");
  for (const std::string order : {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"}) {
    EXPECT_THAT(list.out, HasSubstr(order));
    const Outcome table = fusion_sim("orders --csv " + order + " -p 4 -m 3");
    ASSERT_EQ(table.exit_code, 0) << table.err;
    EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 4) << order;
    const std::string file = write("order.csv", table.out);
    EXPECT_EQ(fusion_sim("orders --csv " + file).out, table.out) << order;
    const std::string run = "simulate --json --engine native" + small_run + "--policy equal-number --micro-batches 3 ";
    const json built_in = json::parse(fusion_sim(run + "--order " + order).out);
    const json from_file = json::parse(fusion_sim(run + "--order " + file).out);
    EXPECT_EQ(from_file["iteration_s"], built_in["iteration_s"]) << order;
    EXPECT_EQ(from_file["devices"], built_in["devices"]) << order;
  }
  // 2 devices, 2 micro-batches: device 1 starts a turn later, its backwards come one turn before those of device 0.
  EXPECT_EQ(fusion_sim("orders --csv 1f1b -p 2 -m 2").out, "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n");
}

TEST_F(Cli, WrongOrdersAreNamed) {
  const std::string run = "plan" + small_run + "--policy equal-number --order ";
  expect_one_line(fusion_sim(run + "interleaved:0"), 3, AllOf(HasSubstr("interleaved:0"), HasSubstr("from 1 to 64")));
  expect_one_line(fusion_sim(run + "zbv:3"), 3, HasSubstr("write \"zbv\""));
  expect_one_line(fusion_sim(run + path("gone.csv")), 3, AllOf(HasSubstr("gone.csv"), HasSubstr("no such file")));
  expect_one_line(fusion_sim(run + write("x.csv", "0F0,0Q0\n")), 3, AllOf(HasSubstr("x.csv:1"), HasSubstr("\"0Q0\"")));
  const std::string two = write("two.csv", "0F0,0B0\n1F0,1B0\n");
  expect_one_line(fusion_sim(run + two + " --micro-batches 1"), 3,
                  AllOf(HasSubstr("two.csv"), HasSubstr("for 2 devices, the placement uses 4")));
  expect_one_line(fusion_sim(run + two + " --devices 2"), 3,
                  AllOf(HasSubstr("two.csv"), HasSubstr("the file is for 1, the run has 8")));
  expect_one_line(fusion_sim("orders -m 4"), 2, HasSubstr("--csv"));
  EXPECT_EQ(fusion_sim(run + two + " --micro-batches 1 --devices 2").exit_code, 0);
}

// zbv gives each of two devices two stages.
TEST_F(Cli, DevicesAreCountedOnceHoweverManyStagesTheyRun) {
  const std::string two = small_run + "--policy equal-number --order zbv --devices 2 ";
  const json best = json::parse(fusion_sim("auto --quiet --json --evaluations 3" + two).out)["best"][0];
  EXPECT_EQ(best["devices_used"], 2);
  EXPECT_THAT(fusion_sim("plan" + two).out, HasSubstr("on 2 of 2 devices"));
}

TEST_F(Cli, ReplicasTrainOnTheSameSamplesInEveryCommand) {
  const std::string two = small_run + "--policy equal-number --replicas 2 ";
  const std::string plan = path("plan.json");
  ASSERT_EQ(fusion_sim("plan" + two + "--quiet -o " + plan).exit_code, 0);
  const json planned = json::parse(fusion_sim("simulate --json --plan " + plan).out);
  EXPECT_EQ(planned, json::parse(fusion_sim("simulate --json" + two).out));
  EXPECT_EQ(planned["replicas"], 2);
  EXPECT_EQ(planned["micro_batches"], 8);
  EXPECT_EQ(planned["samples"], json::parse(fusion_sim("simulate --json" + small_run).out)["samples"]);
  EXPECT_EQ(fusion_sim("rank --quiet --compress none --replicas 2" + small_run).exit_code, 0);
  EXPECT_EQ(fusion_sim("auto --quiet --evaluations 6 --replicas 2" + small_run).exit_code, 0);
  EXPECT_THAT(fusion_sim("collectives").out, AllOf(HasSubstr("ring"), HasSubstr("auto")));
  expect_one_line(fusion_sim("simulate --replicas 3" + small_run), 3, HasSubstr("9 can"));
  expect_one_line(fusion_sim("simulate --replicas 8" + small_run), 3, HasSubstr("replicas"));
  expect_one_line(fusion_sim("simulate --collective rign" + small_run), 3, HasSubstr("ring"));
}

TEST_F(Cli, CompareFindsNoDifferenceInTheSame) {
  const std::string report = path("r.json");
  ASSERT_EQ(fusion_sim("simulate --report " + report + small_run).exit_code, 0);
  const Outcome outcome = fusion_sim("compare --json " + report + " " + report);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const json& pair : json::parse(outcome.out)) EXPECT_EQ(pair["relative_error"], 0) << pair;
}

/// Every flag that names a file to write.
const std::vector<std::string> commands_that_write = {
    "plan" + small_run + "-o ",
    "simulate" + small_run + "--report ",
    "simulate" + small_run + "--timeline ",
    "rank" + small_run + "--policies equal-number --compress none -o ",
    "rank" + small_run + "--policies equal-number --compress none --best ",
    "platform export lan4 -o "};

TEST_F(Cli, AFileThatCannotBeWrittenIsToldBeforeTheWork) {
  for (const std::string& command : commands_that_write) {
    expect_one_line(fusion_sim(command + path("no/such/folder/s.json")), 3, HasSubstr("there is no folder"));
    expect_one_line(fusion_sim(command + path("")), 3, HasSubstr("Is a directory"));
    expect_one_line(fusion_sim(command + "/dev/full"), 5, HasSubstr("No space left on device"));
  }
  expect_one_line(fusion_sim("sweep policy=random" + small_run + "-o " + write("file", "x")), 3, HasSubstr("file"));
  std::filesystem::create_directories(path("sweep/results.csv"));
  expect_one_line(fusion_sim("sweep policy=random" + small_run + "-o " + path("sweep")), 3,
                  HasSubstr("Is a directory"));
  std::filesystem::create_directories(path("s.config.toml"));
  expect_one_line(fusion_sim("plan" + small_run + "-o " + path("s.json")), 3, HasSubstr("s.config.toml"));
  expect_one_line(fusion_sim("simulate" + small_run + "--report " + path("r") + " --timeline " + path("r")), 3,
                  HasSubstr("named for two results"));
}

TEST_F(Cli, AFullDiskIsExitFiveAndTheAnswerIsShown) {
  for (const std::string& command : commands_that_write) {
    const std::string result = write("old", "old");
    const Outcome outcome = run_on_a_full_disk(program + " " + command + result);
    EXPECT_EQ(outcome.exit_code, 5) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("old: can't be written: File too large")) << command;
    if (!command.starts_with("platform")) {
      EXPECT_THAT(outcome.out, HasSubstr("devices")) << command;
    }
    EXPECT_EQ(read_text(result), "old") << command;
  }
}

TEST_F(Cli, AResultMayGoWhereTheAnswerGoes) {
  const Outcome outcome = fusion_sim("plan --quiet" + small_run + "-o /dev/stdout");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("stage"), HasSubstr("\"micro_batches\"")));
}

}  // namespace
}  // namespace fusion
