// Ranks as processes: the transport's cases over MPI, and what is left when a rank dies, freezes or gives up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "core/platform/platform.h"
#include "tests/support/mpi_job.h"

namespace fusion::exec {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

const std::string program = FUSION_TRANSPORT_RANK;
constexpr auto limit = 60s;  ///< of a run that hangs: no test passes or fails by being quicker than that
const std::vector<std::string> over_tcp = {"--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"};

bool nightly() { return std::getenv("FUSION_NIGHTLY") != nullptr; }

/// Several at once: most of a job's time is mpirun's, asleep.
void at_once(const std::vector<std::function<void()>>& jobs) {
  std::vector<std::jthread> threads;
  for (const auto& job : jobs) threads.emplace_back(job);
}

TEST(MpiTransport, PassesTheSuite) {
  const auto passes = [](int num_ranks, const std::vector<std::string>& flags) {
    MpiJob job(num_ranks, {program, "suite"}, flags);
    EXPECT_EQ(job.wait(limit), 0) << job.output();
  };
  at_once({[&] { passes(2, {}); }, [&] { passes(4, {}); }, [&] { passes(3, over_tcp); }});
}

TEST(MpiTransport, TakesTheTimesOfItsLinks) {
  MpiJob job(2, {program, "shaped"});
  EXPECT_EQ(job.wait(limit), 0) << job.output();
}

TEST(Golden, G18_AMessageOf2To31BytesIsDelivered) {
  if (!nightly()) GTEST_SKIP() << "needs 4 GiB of memory; set FUSION_NIGHTLY=1";
  MpiJob job(2, {program, "large", "2147483648"});
  EXPECT_EQ(job.wait(limit), 0) << job.output();
  std::cout << job.output();
}

void a_rank_that_ends_fails_who_waits_for_it() {
  MpiJob job(2, {program, "end"});
  EXPECT_EQ(job.wait(limit), 6) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("rank 0, waiting for x from rank 1: rank 1 has ended"));
  EXPECT_EQ(job.exit_codes()[1], 0);
}

void an_abort_tells_the_others_why() {
  MpiJob job(3, {program, "abort"});
  EXPECT_EQ(job.wait(limit), 3) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("rank 1: data.txt: is empty"));
  for (const auto code : job.exit_codes()) EXPECT_EQ(code, 3) << job.output();
}

void a_mismatch_ends_all_ranks() {
  MpiJob job(3, {program, "handshake", "abd"});
  EXPECT_EQ(job.wait(limit), 3) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("model: rank 0 has abc, rank 1 has abd"));
  for (const auto code : job.exit_codes()) EXPECT_EQ(code, 3) << job.output();
}

void a_rank_that_is_never_done_ends_all() {
  MpiJob job(3, {program, "stuck", "{folder}"});
  job.pids();
  EXPECT_EQ(job.wait(limit), 6) << job.output();
  for (const auto code : job.exit_codes()) EXPECT_EQ(code, 6) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("rank 1, forward of micro-batch 3: not done after 1 s"));
  EXPECT_THAT(job.output(), HasSubstr("rank 0, waiting for what never comes from rank 1: rank 1, forward of"));
  EXPECT_THAT(job.orphans(), testing::IsEmpty());
}

TEST(MpiTransport, RanksThatEndOrFailTellTheOthers) {
  at_once({a_rank_that_ends_fails_who_waits_for_it, an_abort_tells_the_others_why, a_mismatch_ends_all_ranks,
           a_rank_that_is_never_done_ends_all});
}

TEST(Handshake, ThoseWhoAgreeGoOn) {
  MpiJob job(3, {program, "handshake"});
  EXPECT_EQ(job.wait(limit), 0) << job.output();
}

// 8 MB/s and 20 ms from 0 to 1; nothing in return. A round trip has the latency once, so each direction gets half of
// it.
TEST(Probe, MeasuresAShapedLink) {
  MpiJob job(2, {program, "probe", "{folder}/probed.toml"});
  EXPECT_EQ(job.wait(limit), 0) << job.output();
  const Platform platform = load_platform(job.folder() / "probed.toml");
  const Route there = route(platform, DeviceId(0), DeviceId(1)), back = route(platform, DeviceId(1), DeviceId(0));
  EXPECT_LE(there.bandwidth.value, 8e6 * 1.01);
  EXPECT_GE(there.bandwidth.value, 8e6 * 0.5);
  EXPECT_GE(there.latency.value, 0.01);
  EXPECT_GT(back.bandwidth.value, 8e6);
  std::cout << "probed " << format(there.bandwidth) << ", " << format(there.latency) << " each way; back "
            << format(back.bandwidth) << "\n";
}

/// Rank 1 of three does not come up: the others end with 6 and say so, and nobody stays.
std::string output_without_rank_1(const std::string& verb) {
  MpiJob job(3, {program, verb, "{folder}"});
  job.pids();
  EXPECT_THAT(job.wait(limit), AnyOf(6, MpiJob::mpirun_hung)) << job.output();
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(job.exit_codes()[rank], 6) << job.output();
    EXPECT_THAT(job.output(), HasSubstr("rank " + std::to_string(rank) + ", joining the other ranks: "));
  }
  EXPECT_THAT(job.orphans(), testing::IsEmpty());
  return job.output();
}

TEST(MpiStart, ARankThatNeverComesOrFreezesInMpiInitEndsTheOthers) {
  const auto never = HasSubstr("the deadline of a start; nothing has been heard of rank 1 (");
  at_once({[&] { EXPECT_THAT(output_without_rank_1("absent"), never); },
           [&] {
             EXPECT_THAT(
                 output_without_rank_1("stopped"),
                 AnyOf(HasSubstr("rank 1, joining the other ranks, has not been heard of for 1 s, the deadline"),
                       never));  // on a machine that is slow to start the others
           }});
}

struct Fault {
  std::string verb = "ring";
  int signal = SIGKILL, num_ranks = 4, victim = 2;
  std::chrono::milliseconds moment = 300ms;
  double deadline_s = 0;  ///< 0: the default
  std::vector<std::string> flags = {};
};

double since_1970_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Hits one rank; all others must exit 6 and name it, mpirun must end and nobody stay. How long the last of the others
/// took, and mpirun.
struct Took {
  double survivors_s = 0, mpirun_s = 0;
};
Took hit(const Fault& fault) {
  std::vector<std::string> command = {program, fault.verb, "{folder}"};
  if (fault.deadline_s > 0) command.push_back(std::to_string(fault.deadline_s));
  MpiJob job(fault.num_ranks, command, fault.flags);
  const auto pids = job.pids();
  std::this_thread::sleep_for(fault.moment);
  const double start_s = since_1970_s();
  ::kill(pids[static_cast<std::size_t>(fault.victim)], fault.signal);
  EXPECT_EQ(job.wait(limit), fault.signal == SIGKILL ? 137 : 6) << job.output();
  Took took;
  took.mpirun_s = since_1970_s() - start_s;
  const auto codes = job.exit_codes();
  const auto times_s = job.exit_times_s();
  for (int rank = 0; rank < fault.num_ranks; ++rank) {
    if (rank == fault.victim) continue;
    if (const auto time_s = times_s[static_cast<std::size_t>(rank)])
      took.survivors_s = std::max(took.survivors_s, *time_s - start_s);
    // mpirun may kill the wrapper between the end of its rank and its note of it; what the rank said last stands then.
    const auto code = codes[static_cast<std::size_t>(rank)];
    const bool said = job.output().find("[rank " + std::to_string(rank) + ", exit 6]") != std::string::npos;
    EXPECT_TRUE(code ? *code == 6 : said) << "rank " << rank << "\n" << job.output();
    EXPECT_THAT(job.output(), HasSubstr("rank " + std::to_string(rank) + ", "));
  }
  EXPECT_THAT(job.output(), HasSubstr("rank " + std::to_string(fault.victim)));
  EXPECT_THAT(job.orphans(), testing::IsEmpty());
  std::cout << fault.verb + (fault.signal == SIGSTOP ? ", frozen: " : ", killed: ") +
                   "the last of the others ended after " + std::to_string(took.survivors_s) + " s, mpirun after " +
                   std::to_string(took.mpirun_s) + " s\n";
  return took;
}

/// On the same machine, over TCP, while another computes, and as if each rank were on a machine of its own: there only
/// the launcher and the heartbeats tell.
TEST(MpiTransport, ADeadOrFrozenRankEndsTheRun) {
  const Fault near{}, tcp{.flags = over_tcp}, computes{.verb = "busy", .num_ranks = 3},
      far{.num_ranks = 3, .flags = {"-x", "FUSION_TEST_REMOTE=1"}},
      frozen{.signal = SIGSTOP, .num_ranks = 3, .deadline_s = 1};
  at_once({[&] { hit(near); }, [&] { hit(tcp); }, [&] { hit(computes); }, [&] { hit(far); }, [&] { hit(frozen); }});
}

TEST(MpiTransport, Survives50Kills) {
  if (!nightly()) GTEST_SKIP() << "takes minutes; set FUSION_NIGHTLY=1";
  std::mt19937_64 generator(50);
  double longest_s = 0;
  for (int i = 0; i < 50; ++i) {
    Fault fault;
    fault.victim = static_cast<int>(generator() % 4);
    fault.moment = std::chrono::milliseconds(generator() % 700);
    if (i % 5 == 0) fault.flags = over_tcp;
    longest_s = std::max(longest_s, hit(fault).mpirun_s);
  }
  std::cout << "50 kills: mpirun ended after at most " << longest_s << " s\n";
  EXPECT_LT(longest_s, 5);
}

TEST(MpiTransport, Survives10Freezes) {
  if (!nightly()) GTEST_SKIP() << "takes minutes; set FUSION_NIGHTLY=1";
  std::mt19937_64 generator(10);
  double longest_s = 0;
  for (int i = 0; i < 10; ++i) {
    Fault fault;
    fault.signal = SIGSTOP;
    fault.victim = static_cast<int>(generator() % 4);
    fault.moment = std::chrono::milliseconds(generator() % 700);
    fault.deadline_s = 2;
    longest_s = std::max(longest_s, hit(fault).survivors_s);
  }
  std::cout << "10 freezes, deadline 2 s: the others ended after at most " << longest_s << " s\n";
  EXPECT_LT(longest_s, 4);
}

}  // namespace
}  // namespace fusion::exec
