// One sweep by several processes on one folder, as mpirun starts them: nothing twice, nothing lost, the same bytes.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/journal.h"
#include "tests/support/sweep.h"

namespace fusion {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class SweepProcesses : public Sweep {
 protected:
  /// A sweep in the background of a shell, with what it says in OUT.
  std::string started(int rank, const std::string& arguments, const std::string& prefix = "") const {
    return "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + " OMPI_COMM_WORLD_LOCAL_SIZE=3 " + prefix +
           FUSION_SIM_PROGRAM + " sweep " + arguments + " > " + folder("out" + std::to_string(rank)) + " & ";
  }
  void expect_same_results(const std::string& a, const std::string& b) const {
    for (const char* name : {"/results.csv", "/results.jsonl"})
      EXPECT_EQ(read_text(folder(a) + name), read_text(folder(b) + name));
  }
  static std::string text_in(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
};

TEST_F(SweepProcesses, ThreeShareTheWork) {
  ASSERT_EQ(sweep(axes + "-o " + folder("one")).exit_code, 0);
  const std::string command = axes + "-o " + folder("three");
  const Outcome outcome =
      run_program("sh -c '" + started(0, command) + started(1, command) + started(2, command) + "wait'");
  EXPECT_EQ(outcome.err, "wrote " + folder("three") + "/results.csv and results.jsonl\n");  // one of them tells
  expect_same_results("one", "three");
  std::set<std::string> ids;
  for (const std::string& line : lines_of(folder("three") + "/journal.jsonl"))
    EXPECT_TRUE(ids.insert(json::parse(line)["id"]).second) << "twice: " << line;
  EXPECT_EQ(ids.size(), 24u);
  EXPECT_THAT(text_in(folder("out0")), HasSubstr("24 set-ups, 12 failed: infeasible"));
  for (const char* other : {"out1", "out2"}) EXPECT_EQ(text_in(folder(other)), "");
}

TEST_F(SweepProcesses, OneIsKilledAtAnyMoment) {
  ASSERT_EQ(sweep(axes + "-o " + folder("one")).exit_code, 0);
  for (const char* after : {"0.02", "0.05", "0.08", "0.12"}) {
    const std::string command = axes + "--quiet -o " + folder(after);
    const Outcome outcome =
        run_program("sh -c '" + started(0, command) +
                    started(1, command, "timeout -s KILL " + std::string(after) + " ") + started(2, command) + "wait'");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    expect_same_results("one", after);
  }
}

// The set-up that a dead process had is done by one that waited for it.
TEST_F(SweepProcesses, WhatTheDeadHadIsTakenOver) {
  const std::string command = "model=mlp platform=lan4 policy=random,op-fence ";
  ASSERT_EQ(sweep(command + "-o " + folder("one")).exit_code, 0);
  const std::string id = json::parse(lines_of(folder("one") + "/results.jsonl").front())["id"];
  std::filesystem::create_directory(folder("two"));
  sim::Journal journal(folder("two") + "/journal.jsonl");
  ASSERT_TRUE(journal.claim(std::stoull(id, nullptr, 16)));
  const pid_t waiting = fork();
  if (waiting == 0) {
    const std::string line = "exec " + std::string(FUSION_SIM_PROGRAM) + " sweep --quiet " + command + "-o " +
                             folder("two") + " >" + folder("out") + " 2>&1";
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  std::vector<std::string> lines;
  while (lines.empty()) {
    usleep(10'000);
    lines = journal.read_new();
  }
  EXPECT_THAT(lines.front(), Not(HasSubstr(id)));  // the other set-up, and no end without this one
  usleep(200'000);
  EXPECT_EQ(waitpid(waiting, nullptr, WNOHANG), 0);
  EXPECT_FALSE(std::filesystem::exists(folder("two") + "/results.csv"));
  journal.release(std::stoull(id, nullptr, 16));  // as the kernel does for the dead
  int status = -1;
  ASSERT_EQ(waitpid(waiting, &status, 0), waiting);
  EXPECT_EQ(status, 0) << text_in(folder("out"));
  expect_same_results("one", "two");
}

TEST_F(SweepProcesses, UnderMpirun) {
  if (run_program("command -v mpirun").exit_code != 0) GTEST_SKIP() << "no mpirun here";
  ASSERT_EQ(sweep(axes + "-o " + folder("one")).exit_code, 0);
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe --timeout 120 -np 3 ";
  const Outcome outcome = sweep(axes + "--quiet -o " + folder("three"), mpirun);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_same_results("one", "three");
  const auto first = outcome.out.find("24 set-ups");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(outcome.out.find("24 set-ups", first + 1), std::string::npos) << "told by more than one";
}

}  // namespace
}  // namespace fusion
