// fusion-sim sweep as a user runs it: same bytes however many workers and kills, nothing lost, nothing run twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/sweep.h"

namespace fusion {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(Sweep, SameBytesWhateverTheNumberOfWorkers) {
  for (const char* workers : {"1", "3"}) {
    const Outcome outcome = sweep(axes + "-o " + folder(workers) + " --workers " + workers);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("24 set-ups, 12 failed: infeasible"));
  }
  for (const char* name : {"/results.csv", "/results.jsonl"})
    EXPECT_EQ(read_text(folder("1") + name), read_text(folder("3") + name));
  ASSERT_EQ(lines_of(folder("1") + "/results.jsonl").size(), 24u);
  const json first = json::parse(lines_of(folder("1") + "/results.jsonl").front());
  EXPECT_EQ(first["model"], "mlp");  // the last axis runs fastest
  EXPECT_EQ(first["bandwidth"], "8 Mbps");
  EXPECT_GT(first["iteration_s"], 0);
  const json last = json::parse(lines_of(folder("1") + "/results.jsonl").back());
  EXPECT_EQ(last["failed"], "infeasible");
  EXPECT_THAT(last["reason"].get<std::string>(), HasSubstr("GiB"));
  EXPECT_TRUE(std::filesystem::exists(folder("1") + "/configs/" + first["id"].get<std::string>() + ".toml"));
}

// Killed again and again, and once with a torn line: the results are those of a sweep that nothing stopped.
TEST_F(Sweep, KilledAtAnyMomentItGoesOn) {
  ASSERT_EQ(sweep(axes + "-o " + folder("whole")).exit_code, 0);
  const std::string command = axes + "-o " + folder("killed");
  for (const char* after : {"0.02", "0.05", "0.08", "0.1", "0.15"})
    sweep(command, "timeout -s KILL " + std::string(after) + " ");
  std::ofstream(folder("killed") + "/journal.jsonl", std::ios::app) << "{\"id\": \"0123";
  ASSERT_EQ(sweep(command).exit_code, 0);
  for (const char* name : {"/results.csv", "/results.jsonl"})
    EXPECT_EQ(read_text(folder("whole") + name), read_text(folder("killed") + name));
}

// A line that lacks figures, or one of a worker that was killed, is not a result.
TEST_F(Sweep, AJournalIsTakenAtItsWordOnlyWhereItIsWhole) {
  const std::string command = "model=mlp platform=lan4 policy=random,op-fence -o " + folder("s");
  ASSERT_EQ(sweep(command).exit_code, 0);
  const std::string whole = read_text(folder("s") + "/results.jsonl");
  const json line = json::parse(lines_of(folder("s") + "/results.jsonl").front());
  json hollow = {{"id", line["id"]}}, wrong = line, killed = line;
  wrong["samples_per_s"] = "x";
  killed["failed"] = "crash";
  for (const json& each : {hollow, wrong, killed}) {
    std::ofstream(folder("s") + "/journal.jsonl") << each.dump() << "\n";
    const Outcome outcome = sweep(command);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(read_text(folder("s") + "/results.jsonl"), whole);
  }
}

TEST_F(Sweep, AnEditedPlatformIsAnotherSetUp) {
  const std::string file = folder("p.toml"),
                    text = read_text(std::string(FUSION_SOURCE_DIRECTORY) + "/platforms/lan4.toml");
  const std::string command = "model=mlp platform=" + file + " policy=equal-number -o " + folder("s");
  std::ofstream(file) << text;
  ASSERT_EQ(sweep(command).exit_code, 0);
  const json before = json::parse(lines_of(folder("s") + "/results.jsonl").front());
  std::ofstream(file) << std::regex_replace(text, std::regex("1 Gbps"), "1 Mbps");
  ASSERT_EQ(sweep(command).exit_code, 0);
  const json after = json::parse(lines_of(folder("s") + "/results.jsonl").front());
  EXPECT_NE(before["id"], after["id"]);
  EXPECT_GT(after["iteration_s"].get<double>(), 100 * before["iteration_s"].get<double>());
}

TEST_F(Sweep, TheResolvedOptionsAreAConfigFile) {
  ASSERT_EQ(sweep("model=mlp platform=lan4 policy=random seed=7 -o " + folder("s")).exit_code, 0);
  const json row = json::parse(lines_of(folder("s") + "/results.jsonl").front());
  const Outcome again = run_program(std::string(FUSION_SIM_PROGRAM) + " simulate --json --engine native --config " +
                                    folder("s") + "/configs/" + row["id"].get<std::string>() + ".toml");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["iteration_s"], row["iteration_s"]);
}

TEST_F(Sweep, WhatIsDoneIsNotDoneAgain) {
  const std::string out = "-o " + folder("s");
  ASSERT_EQ(sweep("model=mlp platform=lan4 policy=random " + out).exit_code, 0);
  ASSERT_EQ(sweep("model=mlp platform=lan4 policy=random,op-fence,random " + out).exit_code, 0);
  EXPECT_EQ(lines_of(folder("s") + "/journal.jsonl").size(), 2u);
  EXPECT_EQ(lines_of(folder("s") + "/results.jsonl").size(), 3u);  // as the grid was asked for
}

TEST_F(Sweep, BothEnginesAndAFileOfAxes) {
  const std::string file = folder("grid.toml");
  std::ofstream(file) << "model = [\"mlp\"]\nplatform = [\"lan4\"]\nmicro-batches = [2, 4]\nengine = [\"native\", "
                         "\"simgrid\"]\npolicy = [\"equal-number\"]\n";
  ASSERT_EQ(sweep(file + " -o " + folder("f")).exit_code, 0);
  const std::vector<std::string> lines = lines_of(folder("f") + "/results.jsonl");
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 0; i < 4; i += 2)
    EXPECT_NEAR(json::parse(lines[i])["iteration_s"].get<double>(),
                json::parse(lines[i + 1])["iteration_s"].get<double>(), 1e-9);
}

TEST_F(Sweep, WrongAxesFailBeforeAnythingRuns) {
  const auto fails = [&](const std::string& arguments, const std::string& says) {
    const Outcome outcome = sweep(arguments + " -o " + folder("none"));
    EXPECT_EQ(outcome.exit_code, 3) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder("none")));
  };
  fails("polcy=random", "\"policy\"");
  fails("policy=radom", "\"random\"");
  fails("policy", "key=value");
  fails("model=mlp platform=lan4 engine=natve", "\"native\"");
  fails("model=mlp platform=lan4 network=tcp", "simgrid");
  fails("model=mlp platform=lan4 \"bandwidth=8\"", "unit");
  fails("model=mlp policy=random", "platform");
  fails("model=gtp2 platform=lan4", "did you mean \"gpt2\"");
  fails("model=mlp platform=lan4,nope", "\"nope\"");
  fails("model=mlp platform=lan4 devices=5", "5");
  std::ofstream(folder("far.toml")) << "model = [\"mlp\"]\nplatform = [\"lan4\", \"lan5\"]\n";
  fails(folder("far.toml"), "far.toml:2: platform: \"lan5\" is not known; did you mean \"lan4\"");
  std::ofstream(folder("gone.toml")) << "platform = [\"lan4\"]\n\nmodel = [\"gtp2\"]\n";
  fails(folder("gone.toml"), "gone.toml:3: model: \"gtp2\"");
  std::ofstream(folder("bad.toml")) << "model = [\"mlp\"]\npolcy = [\"random\"]\n";
  fails(folder("bad.toml"), "bad.toml:2: polcy");
}

}  // namespace
}  // namespace fusion
