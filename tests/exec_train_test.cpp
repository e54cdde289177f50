// fusion-exec as its users meet it, by threads and by mpirun: exit codes, reports, resumes, kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "core/base/file.h"
#include "core/report/report.h"
#include "exec/checkpoint.h"
#include "exec/launch_flags.h"
#include "tests/support/run_program.h"

namespace fusion {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

const std::string program = FUSION_EXEC_PROGRAM;
/// A perceptron of a few hundred parameters.
constexpr const char* network = R"(
name = "small"
[[op]]
name = "x"
kind = "input"
shape = "[B, 6]"
[[op]]
name = "a"
kind = "linear"
inputs = ["x"]
out_features = 8
[[op]]
name = "a.relu"
kind = "relu"
inputs = ["a"]
[[op]]
name = "b"
kind = "linear"
inputs = ["a.relu"]
out_features = 8
[[op]]
name = "b.relu"
kind = "relu"
inputs = ["b"]
[[op]]
name = "c"
kind = "linear"
inputs = ["b.relu"]
out_features = 8
[[op]]
name = "out"
kind = "linear"
inputs = ["c"]
out_features = 5
[[op]]
name = "label"
kind = "label"
shape = "[B]"
[[op]]
name = "loss"
kind = "cross_entropy"
inputs = ["out", "label"]
)";

Outcome fusion_exec(const std::string& arguments) { return run_program(program + " " + arguments); }

std::string mpirun(int ranks) {
  std::string line = "mpirun --timeout 60 -np " + std::to_string(ranks) + " " + exec::oversubscribe_flag;
  if (::geteuid() == 0) line += " " + exec::root_flag;
  for (const std::string& flag : exec::mpirun_flags(ranks)) line += " " + flag;
  return line + " " + program + " ";
}

class Train : public testing::Test {
 protected:
  Train() { write_text(path("small.toml"), network); }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string small_run() const {
    return " train --model " + path("small.toml") +
           " --platform lan4 --policy equal-number --micro-batch 2 --micro-batches 4 --data synthetic --backend eigen ";
  }
  TemporaryFolder folder_;
};

std::vector<double> losses_in(const std::string& report) { return read_report(report).loss; }

TEST_F(Train, EveryCommandTeaches) {
  for (const char* command : {"", "train", "launch", "probe"}) {
    const Outcome outcome = fusion_exec(std::string(command) + " --help");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Example")) << command;
  }
}

TEST_F(Train, ThreadsAndProcessesGiveTheSameLossesAndAReportThatCompares) {
  const std::string common = small_run() + "--steps 3 ";
  const Outcome threads = fusion_exec(common + "--report " + path("t.json") + " --timeline " + path("trace.json") +
                                      " --jsonl " + path("t.jsonl"));
  ASSERT_EQ(threads.exit_code, 0) << threads.err;
  EXPECT_THAT(threads.err, HasSubstr("4 ranks run as threads"));
  EXPECT_THAT(threads.err, HasSubstr("step 3/3"));
  const Outcome processes = run_program(mpirun(4) + common + "--shape --report " + path("p.json"));
  ASSERT_EQ(processes.exit_code, 0) << processes.err;
  EXPECT_EQ(losses_in(path("p.json")), losses_in(path("t.json")));

  const Report report = read_report(path("t.json"));
  EXPECT_EQ(report.engine, "threads");
  EXPECT_EQ(read_report(path("p.json")).engine, "mpi");
  EXPECT_EQ(report.loss.size(), 3U);
  for (const LinkReport& link : report.links) EXPECT_EQ(link.bytes, link.dense_bytes) << link.from << ' ' << link.to;
  std::ifstream lines(path("t.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_EQ(json::parse(line).at("step"), count + 1);
  EXPECT_EQ(count, 3);
  // One event per step of the program and two per message, on any device.
  const json trace = json::parse(read_text(path("trace.json")));
  const auto slices = std::ranges::count_if(trace.at("traceEvents"), [](const json& e) { return e.at("ph") == "X"; });
  EXPECT_GE(slices, 4 * 4 * 2);
}

TEST_F(Train, GoesOnOnAnotherNumberOfRanksToTheSameBits) {
  ASSERT_EQ(fusion_exec(small_run() + "--devices 1 --steps 6 --report " + path("whole.json")).exit_code, 0);
  const std::string checkpoint = "--checkpoint " + path("run") + " --resume ";
  ASSERT_EQ(fusion_exec(small_run() + checkpoint + "--devices 3 --steps 2 --report " + path("a.json")).exit_code, 0);
  ASSERT_EQ(fusion_exec(small_run() + checkpoint + "--steps 6 --report " + path("b.json")).exit_code, 0);
  std::vector<double> parts = losses_in(path("a.json"));
  for (const double loss : losses_in(path("b.json"))) parts.push_back(loss);
  EXPECT_EQ(parts, losses_in(path("whole.json")));
  const Outcome again = fusion_exec(small_run() + "--steps 9 --checkpoint " + path("run"));
  EXPECT_EQ(again.exit_code, 3);
  EXPECT_THAT(again.err, HasSubstr("--resume"));
}

TEST_F(Train, BadInputExitsThreeAndSaysWhatIsRight) {
  const auto expect = [](const std::string& arguments, int code, const char* says) {
    const Outcome outcome = fusion_exec(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << arguments;
  };
  expect("train --data synthetic --steps 1", 2, "--plan");
  expect(small_run() + "--steps 1 --stpes 2", 2, "did you mean \"--steps\"");
  expect(small_run() + "--steps 1 --resume", 2, "--checkpoint");
  expect(small_run() + "--steps 1 --report " + path("no/r.json"), 3, "there is no folder");
  expect(small_run() + "--steps 1 --learning-rate nan", 2, "--learning-rate");
  expect(small_run() + "--steps 1 --backend trch", 3, "\"torch\"");
  for (const char* list : {"eigen,", ",eigen", "eigen,,eigen,eigen", ","})
    expect(small_run() + "--steps 1 --backend " + list, 3, "has a comma with nothing on one side");
  expect(small_run() + "--steps 1 --deadline 5", 2, "--deadline");
  expect(small_run() + "--steps 1 --deadline 1ns", 2, "too short");
  expect(small_run() + "--steps 1 --precision fp16", 3, "not executed yet");
  expect("train --model mlp --platform lan4 --steps 1 --data synthetc", 3, "did you mean \"synthetic\"");
}

int lines_of_ranks(const std::string& err) {
  std::istringstream lines(err);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("fusion-exec, rank") ? 1 : 0;
  return count;
}

TEST_F(Train, WhatAllRanksFindWrongIsOneLine) {
  const auto expect = [&](const std::string& arguments, int code, const char* says) {
    const Outcome outcome = run_program(mpirun(3) + small_run() + arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << arguments;
    EXPECT_EQ(lines_of_ranks(outcome.err), 1) << outcome.err;
  };
  expect("--devices 3 --stpes 2", 2, "did you mean \"--steps\"");
  expect("--devices 3 --steps 2 --model " + path("gone.toml"), 3, "gone.toml");
  expect("--devices 2 --steps 2", 3, "the plan is for 2 ranks, 3 were started");
}

TEST_F(Train, WhatOneRankFindsWrongItSays) {
  std::string line = mpirun(3);
  line.insert(line.rfind(program), "sh -c 'model=" + path("small.toml") + "; test $OMPI_COMM_WORLD_RANK = 2 && model=" +
                                       path("gone.toml") + "; exec \"$0\" \"$@\" --model $model' ");
  const Outcome outcome = run_program(line + small_run() + "--devices 3 --steps 2");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("fusion-exec, rank 2: " + path("gone.toml")));
  EXPECT_EQ(lines_of_ranks(outcome.err), 1) << outcome.err;
}

TEST_F(Train, AResultThatCannotBeWrittenIsToldBeforeTheWork) {
  for (const char* flag : {"--report ", "--timeline ", "--jsonl "}) {
    write_text(path("old"), "old");
    const Outcome folder = fusion_exec(small_run() + "--steps 1000000 " + flag + path(""));
    EXPECT_EQ(folder.exit_code, 3) << folder.err;
    EXPECT_THAT(folder.err, HasSubstr("Is a directory"));
    const Outcome full = fusion_exec(small_run() + "--steps 1000000 " + flag + "/dev/full");
    EXPECT_EQ(full.exit_code, 5) << full.err;
    EXPECT_THAT(full.err, HasSubstr("No space left on device"));
    const Outcome other = fusion_exec(small_run() + "--steps 1 --checkpoint " + path("old") + ' ' + flag + path("old"));
    EXPECT_EQ(other.exit_code, 3) << other.err;  // refused for another reason: what was there stays
    EXPECT_EQ(read_text(path("old")), "old") << flag;
  }
  EXPECT_EQ(fusion_exec("profile --model mlp --backend eigen -o " + path("")).exit_code, 3);
  EXPECT_EQ(run_program(mpirun(2) + "probe -o " + path("")).exit_code, 3);
}

TEST_F(Train, AFullDiskIsExitFiveAndTheResultIsShown) {
  for (const char* flag : {"--report ", "--timeline ", "--jsonl "}) {
    const Outcome outcome = run_on_a_full_disk(program + small_run() + "--steps 2 " + flag + path("r"));
    EXPECT_EQ(outcome.exit_code, 5) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("can't be written"));
    EXPECT_THAT(outcome.out, HasSubstr("iteration"));
  }
}

TEST_F(Train, ResumesOnTheSameDataOnly) {
  const std::string images = path("train-images-idx3-ubyte"), labels = path("train-labels-idx1-ubyte");
  const auto put = [&](char pixel) {
    const std::string head("\0\0\x08\x03\0\0\0\x04\0\0\0\x02\0\0\0\x03", 16);
    std::ofstream(images, std::ios::binary) << head << std::string(24, pixel);
    std::ofstream(labels, std::ios::binary) << std::string("\0\0\x08\x01\0\0\0\x04\0\1\2\3", 12);
  };
  const auto run = [&](const std::string& more) {
    return fusion_exec("train --model " + path("small.toml") +
                       " --platform lan4 --policy equal-number --backend eigen --checkpoint " + path("run") +
                       " --resume --data idx:" + path("") + ' ' + more);
  };
  put('a');
  const Outcome first = run("--steps 2 --micro-batch 2 --micro-batches 4");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("begins anew"));
  const Outcome more = run("--steps 3 --micro-batch 4 --micro-batches 3");
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_THAT(more.err,
              HasSubstr("a step takes 12 samples, and took 8 before: goes on where the data was left, after 16"));
  put('b');
  const Outcome other = run("--steps 4 --micro-batch 2 --micro-batches 4");
  EXPECT_EQ(other.exit_code, 3) << other.err;
  EXPECT_THAT(other.err, HasSubstr("data: is of \"idx, 4 pictures [1, 2, 3], checksum "));
}

TEST_F(Train, LaunchPrintsALineThatRuns) {
  const std::string sim = FUSION_SIM_PROGRAM;
  ASSERT_EQ(
      run_program(sim + " plan --model mlp --platform lan4 --policy equal-compute --devices 2 -o " + path("s.json"))
          .exit_code,
      0);
  const std::string words = "launch --plan " + path("s.json") + " -o " + path("out");
  const Outcome launch = fusion_exec(words + " -- --data synthetic --steps 1 --backend eigen");
  ASSERT_EQ(launch.exit_code, 0) << launch.err;
  EXPECT_THAT(launch.out, HasSubstr("mpirun -np 2 --timeout 86400"));
  const Outcome run = run_program(path("out") + "/run --quiet --report " + path("r.json"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(losses_in(path("r.json")).size(), 1U);
  EXPECT_THAT(read_text(path("out") + "/job.sbatch"), HasSubstr("#SBATCH --ntasks=2"));
  const auto refused = [&](const std::string& arguments, const char* says) {
    const Outcome outcome = fusion_exec(words + " -- --data synthetic " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << arguments;
  };
  refused("--stps 1", "after --: \"--stps\" is not known; did you mean \"--steps\"?");
  refused("", "--steps is required; see fusion-exec train --help");
  refused("--steps 1 --plan other.json", "after --: leave out --plan: what runs is the --plan of launch");
  refused("--steps 1 --model gpt2", "leave out --model");
  refused("--steps 1 --platform lan8", "leave out --platform");
  refused("--steps 1 --config run.toml", "leave out --config");
  const Outcome hosts = fusion_exec("launch --plan " + path("s.json") + " --hosts b,a -o " + path("out") +
                                    " -- --data synthetic --steps 1");
  EXPECT_EQ(hosts.exit_code, 0) << hosts.err;
  EXPECT_EQ(read_text(path("out") + "/hostfile"), "b\na\n");
  EXPECT_THAT(hosts.out, HasSubstr("--map-by seq"));  // else the host of mpirun itself has rank 0
  EXPECT_THAT(hosts.err, HasSubstr("btl_tcp_if_include"));
  for (const char* wrong : {",a", "a,", "'b slots=9,a'"})
    EXPECT_EQ(fusion_exec("launch --plan " + path("s.json") + " --hosts " + wrong + " -- --data synthetic --steps 1")
                  .exit_code,
              3);
}

TEST_F(Train, LaunchedScriptsCountPathsFromWhereLaunchWasCalled) {
  ASSERT_EQ(
      run_program("cd " + path("") + " && " + FUSION_SIM_PROGRAM +
                  " plan --model small.toml --platform lan4 --policy equal-number --devices 2 -o s.json && " + program +
                  " launch --plan s.json -o out -- --data synthetic --steps 1 --backend eigen --report r.json")
          .exit_code,
      0);
  const Outcome run = run_program("cd / && " + path("out") + "/run --quiet");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(losses_in(path("r.json")).size(), 1U);
}

// mpirun ends after 30 s, Slurm's minute after 60; half of the 30 s before mpirun's end is 45 s before Slurm's.
TEST_F(Train, LaunchFollowsHostsThatComeBack) {
  ASSERT_EQ(run_program(std::string(FUSION_SIM_PROGRAM) + " plan --model " + path("small.toml") +
                        " --platform lan4 --policy equal-number --devices 3 -o " + path("s.json"))
                .exit_code,
            0);
  const Outcome launch = fusion_exec("launch --plan " + path("s.json") + " --hosts a,b,a --timeout 30 -o " +
                                     path("out") + " -- --data synthetic --steps 1");
  ASSERT_EQ(launch.exit_code, 0) << launch.err;
  EXPECT_THAT(launch.out, HasSubstr("--map-by seq"));
  EXPECT_EQ(read_text(path("out") + "/hostfile"), "a\nb\na\n");
  const std::string job = read_text(path("out") + "/job.sbatch");
  for (const char* line : {"#SBATCH --nodelist=a,b\n", "#SBATCH --nodes=2\n", "#SBATCH --time=1\n", "B:USR1@45\n"})
    EXPECT_THAT(job, HasSubstr(line));
}

TEST_F(Train, LaunchRefusesWhatTrainWouldRefuse) {
  for (const char* order : {"interleaved:2", "zbv", "zb-h1"}) {
    ASSERT_EQ(run_program(std::string(FUSION_SIM_PROGRAM) +
                          " plan --model mlp --platform pair --policy equal-number --order " + order + " -o " +
                          path("s.json"))
                  .exit_code,
              0);
    const Outcome launch =
        fusion_exec("launch --plan " + path("s.json") + " -o " + path("out") + " -- --data synthetic --steps 1");
    EXPECT_EQ(launch.exit_code, 3) << order;
    EXPECT_THAT(launch.err, HasSubstr(std::string(order) + " "));
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
  const Outcome launch = fusion_exec("launch --plan s.json --timeout 0 -- --data synthetic --steps 1");
  EXPECT_EQ(launch.exit_code, 2);
  EXPECT_THAT(launch.err, HasSubstr("--timeout"));
}

TEST_F(Train, ProfileTimesEveryOpThatComputes) {
  const Outcome outcome = fusion_exec(
      "profile --model mlp --micro-batch 2 --repeats 2 --backend eigen --json --gpu '' -o " + path("p.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json profile = json::parse(read_text(path("p.json")));
  EXPECT_EQ(profile.at("ops").size(), 9U);  // flatten, 4 linear, 3 relu, loss
  for (const json& op : profile.at("ops")) EXPECT_GT(op.at("forward_s").get<double>(), 0) << op;
}

TEST_F(Train, ProfileInPlaceAddsUpToWholePasses) {
  const std::string profile = "profile --model mlp --micro-batch 2 --repeats 2 --backend eigen --in-place ";
  for (const char* wait : {"none", "'1 ms'"}) {
    const Outcome outcome = fusion_exec(profile + wait + " --json");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json found = json::parse(outcome.out);
    for (const char* pass : {"forward_s", "backward_s"}) {
      double sum = 0;
      for (const json& op : found.at("ops")) sum += op.at(pass).get<double>();
      EXPECT_GT(sum, 0);
      EXPECT_NEAR(found.at(pass).get<double>(), sum, 1e-9 * sum);
    }
    EXPECT_GT(found.at("update_bytes_per_s").get<double>(), 0);
  }
  const Outcome wrong = fusion_exec(profile + "soon");
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.err, HasSubstr("--in-place"));
}

/// A program of its own process group, so that a kill reaches what it started.
class Background {
 public:
  explicit Background(const std::string& command) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::setpgid(0, 0);
    ::execl("/bin/sh", "sh", "-c", ("exec " + command + " >/dev/null 2>&1").c_str(), nullptr);
    ::_exit(127);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() {
    if (pid_ > 0) ::kill(-pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  /// Exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

/// Waits until `done`, a minute at most.
template <class Done>
bool eventually(Done done) {
  for (int i = 0; i < 6000 && !done(); ++i) std::this_thread::sleep_for(10ms);
  return done();
}

int steps_in(const std::string& directory) {
  std::vector<std::string> refused;
  const auto newest = exec::newest_checkpoint(directory, refused);
  return newest ? std::stoi(newest->filename().string().substr(5)) : 0;
}

TEST_F(Train, AskedToStopItFinishesItsStepAndWritesACheckpoint) {
  const std::string arguments = small_run() + "--steps 1000000 --checkpoint " + path("run") + " --jsonl " + path("log");
  const auto started = [&] { return fs::exists(path("log")) && fs::file_size(path("log")) > 0; };
  {
    Background run(program + arguments);
    ASSERT_TRUE(eventually(started));
    run.signal(SIGTERM);
    EXPECT_EQ(run.wait(), 0);
  }
  const int steps = steps_in(path("run"));
  EXPECT_GT(steps, 0);
  fs::remove(path("log"));
  Background run(mpirun(4) + arguments + " --resume");
  ASSERT_TRUE(eventually(started));
  run.signal(SIGUSR1);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_GT(steps_in(path("run")), steps);
}

/// Processes of this test that run `program`, by the folder in their arguments.
std::vector<pid_t> ranks_of(const std::string& folder) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::ostringstream text;
    text << file.rdbuf();  // throws nothing where the process has just ended
    const std::string line = text.str();
    if (line.starts_with(program) && line.find(folder) != std::string::npos)
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

/// Whether the process holds SIGUSR1 back or handles it.
bool is_ready_for_a_stop(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  bool ready = false;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:") || line.starts_with("SigCgt:"))
      ready |= (std::stoull(line.substr(7), nullptr, 16) >> (SIGUSR1 - 1) & 1) != 0;
  return ready;
}

TEST_F(Train, AskedToStopBeforeItIsUpItEndsInOrder) {
  const std::string arguments = small_run() + "--steps 1000000 --jsonl " + path("log");
  for (const std::string& line : {program + arguments, mpirun(4) + arguments}) {
    const std::size_t num_ranks = line.starts_with(program) ? 1 : 4;
    Background run(line);
    ASSERT_TRUE(eventually([&] {
      const auto ranks = ranks_of(path("log"));
      return ranks.size() == num_ranks && std::ranges::all_of(ranks, is_ready_for_a_stop);
    }));
    run.signal(SIGUSR1);
    EXPECT_EQ(run.wait(), 0) << line;
  }
}

TEST_F(Train, AKilledScriptTakesItsJobAlong) {
  ASSERT_EQ(run_program(std::string(FUSION_SIM_PROGRAM) + " plan --model mlp --platform lan4 --devices 2 -o " +
                        path("s.json"))
                .exit_code,
            0);
  ASSERT_EQ(fusion_exec("launch --plan " + path("s.json") + " --timeout 60 -o " + path("out") +
                        " -- --data synthetic --steps 1000000 --backend eigen --jsonl " + path("log"))
                .exit_code,
            0);
  Background run(path("out") + "/run");
  ASSERT_TRUE(eventually([&] { return fs::exists(path("log")) && fs::file_size(path("log")) > 0; }));
  run.signal(SIGKILL);
  run.wait();
  EXPECT_TRUE(eventually([&] { return ranks_of(path("log")).empty(); }));
}

TEST_F(Train, ARankThatDiesEndsTheOthersWithSix) {
  const std::string code_file = path("code.");
  const std::string wrapped =
      "sh -c 'trap \"\" TERM; \"$0\" \"$@\"; echo $? > " + code_file + "$OMPI_COMM_WORLD_RANK' ";
  std::string line = mpirun(3);
  line.insert(line.rfind(program), wrapped);
  Background run(line + small_run() + "--devices 3 --steps 1000000 --jsonl " + path("log"));
  ASSERT_TRUE(eventually([&] { return fs::exists(path("log")) && fs::file_size(path("log")) > 0; }));
  const std::vector<pid_t> ranks = ranks_of(path("log"));
  ASSERT_EQ(ranks.size(), 3U);
  ::kill(ranks.back(), SIGKILL);
  run.wait();
  ASSERT_TRUE(eventually([&] { return ranks_of(path("log")).empty(); })) << "orphans";
  int lost = 0;
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream file(code_file + std::to_string(rank));
    int code = -1;
    if (file >> code && code == 6) ++lost;
  }
  EXPECT_EQ(lost, 2);
}

/// The directory always holds the last complete step, whenever the run is killed.
TEST_F(Train, Golden_G19_KillsWhileCheckpointsAreWritten) {
  const int kills = std::getenv("FUSION_NIGHTLY") != nullptr ? 100 : 5;
  std::mt19937 random(19);
  int before = 0;
  for (int i = 0; i < kills; ++i) {
    Background run(program + small_run() +
                   "--devices 2 --steps 1000000 --checkpoint-every 1 --checkpoint-keep 3 --resume --checkpoint " +
                   path("run") + " --jsonl " + path("log"));
    const int target = before + 1;
    ASSERT_TRUE(eventually([&] { return steps_in(path("run")) >= target; })) << "kill " << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    run.signal(SIGKILL);
    run.wait();
    const int after = steps_in(path("run"));
    EXPECT_GE(after, target);
    before = after;
  }
}

}  // namespace
}  // namespace fusion
