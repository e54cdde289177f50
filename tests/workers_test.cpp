// The pool of forked workers: every job answered once, whatever becomes of its worker.
#include "sim/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>
#include <vector>

namespace fusion::sim {
namespace {

/// Jobs 0 to n - 1 and their answers, each of which came once.
std::map<std::size_t, Answer> answers(std::size_t n, int num_workers, Lifetime lifetime,
                                      const std::function<std::string(std::size_t)>& run) {
  std::map<std::size_t, Answer> all;
  std::size_t begun = 0;
  Work work;
  work.next = [&] { return begun < n ? std::optional(begun++) : std::nullopt; };
  work.run = run;
  work.done = [&](std::size_t job, const Answer& answer) { EXPECT_TRUE(all.emplace(job, answer).second) << job; };
  run_in_workers(work, num_workers, lifetime);
  EXPECT_EQ(all.size(), n);
  return all;
}

TEST(Workers, AnyTextComesBackWhole) {
  const auto text_of = [](std::size_t job) {
    std::string text(job * job * 37, '\n');
    for (std::size_t i = 0; i < text.size(); i += 3) text[i] = static_cast<char>(i % 256);
    return text;
  };
  for (const int workers : {1, 3})
    for (const Lifetime lifetime : {Lifetime::many_jobs, Lifetime::one_job})
      for (const auto& [job, answer] : answers(60, workers, lifetime, text_of)) {
        EXPECT_EQ(answer.text, text_of(job));
        EXPECT_EQ(answer.death, "");
      }
}

TEST(Workers, AProcessForEachJobOrOneForMany) {
  const auto process = [](std::size_t) { return std::to_string(getpid()); };
  const auto processes = [&](Lifetime lifetime) {
    std::set<std::string> all;
    for (const auto& [job, answer] : answers(20, 2, lifetime, process)) all.insert(answer.text);
    return all.size();
  };
  EXPECT_EQ(processes(Lifetime::one_job), 20u);
  EXPECT_LE(processes(Lifetime::many_jobs), 2u);
}

TEST(Workers, ADeathIsToldAndTheRestGoesOn) {
  const auto run = [](std::size_t job) -> std::string {
    if (job % 5 == 1) raise(SIGKILL);
    if (job % 5 == 2) _exit(3);
    return "fine";
  };
  for (const Lifetime lifetime : {Lifetime::many_jobs, Lifetime::one_job})
    for (const auto& [job, answer] : answers(30, 3, lifetime, run)) {
      EXPECT_EQ(answer.text, job % 5 == 1 || job % 5 == 2 ? "" : "fine");
      EXPECT_EQ(answer.death, job % 5 == 1   ? "was ended by a signal: Killed"
                              : job % 5 == 2 ? "ended with status 3 and no result"
                                             : "");
    }
}

TEST(Workers, JobsMayComeFromTheAnswers) {
  std::vector<std::size_t> queue = {5};  // each job asks for the next smaller one
  std::size_t done = 0;
  Work work;
  work.next = [&]() -> std::optional<std::size_t> {
    if (queue.empty()) return {};
    const std::size_t job = queue.back();
    queue.pop_back();
    return job;
  };
  work.run = [](std::size_t job) { return std::to_string(job); };
  work.done = [&](std::size_t job, const Answer&) {
    ++done;
    if (job > 0) queue.push_back(job - 1);
  };
  run_in_workers(work, 2);
  EXPECT_EQ(done, 6u);
}

}  // namespace
}  // namespace fusion::sim
