// The journal of a sweep: lines from many writers, claims that die with their holder.
#include "sim/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace fusion::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class JournalTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "journal.jsonl";
};

TEST_F(JournalTest, EachLineIsReadOnceByThoseWhoDidNotWriteIt) {
  Journal a(path_), b(path_);
  a.append("one");
  b.append("two");
  EXPECT_THAT(a.read_new(), ElementsAre("two"));         // its own it knows
  EXPECT_THAT(b.read_new(), ElementsAre("one", "two"));  // what it wrote after another's comes back
  EXPECT_THAT(a.read_new(), IsEmpty());
  a.append("three");
  EXPECT_THAT(a.read_new(), IsEmpty());
  EXPECT_THAT(b.read_new(), ElementsAre("three"));
  EXPECT_THAT(Journal(path_).read_new(), ElementsAre("one", "two", "three"));
}

TEST_F(JournalTest, ATornLineStaysByItself) {
  std::ofstream(path_) << "whole\ntor";
  Journal journal(path_);
  EXPECT_THAT(journal.read_new(), ElementsAre("whole"));
  journal.append("next");
  EXPECT_THAT(journal.read_new(), ElementsAre("tor", "next"));
}

TEST_F(JournalTest, OneAtATimeHasAClaim) {
  Journal a(path_), b(path_);
  const std::uint64_t first = 0, last = ~0ULL;
  EXPECT_TRUE(a.claim(first));
  EXPECT_FALSE(b.claim(first));
  EXPECT_TRUE(b.claim(last));
  EXPECT_FALSE(a.claim(last));
  a.release(first);
  EXPECT_TRUE(b.claim(first));
  b.append("claims do not hinder writers");
  EXPECT_THAT(a.read_new(), testing::SizeIs(1));
}

TEST_F(JournalTest, AClaimDiesWithItsProcess) {
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    Journal held(path_);
    held.claim(7);
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  Journal journal(path_);
  EXPECT_FALSE(journal.claim(7));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(journal.claim(7));
  close(ready[0]), close(ready[1]);
}

TEST_F(JournalTest, WritersDoNotTearEachOthersLines) {
  constexpr int writers = 4, lines = 200;
  for (int w = 0; w < writers; ++w)
    if (fork() == 0) {
      Journal journal(path_);
      for (int i = 0; i < lines; ++i)
        journal.append(std::string(static_cast<std::size_t>(50 + i), static_cast<char>('a' + w)));
      _exit(0);
    }
  for (int w = 0; w < writers; ++w) wait(nullptr);
  std::array<int, writers> counts{};
  for (const std::string& line : Journal(path_).read_new()) {
    ASSERT_EQ(line.find_first_not_of(line.front()), std::string::npos);
    // each writer's own lines stand in its order
    ASSERT_EQ(line.size(), static_cast<std::size_t>(50 + counts[static_cast<std::size_t>(line.front() - 'a')]++));
  }
  EXPECT_THAT(counts, testing::Each(lines));
}

TEST_F(JournalTest, WhatCanNotBeWrittenIsSaid) {
  EXPECT_THROW(Journal(folder_.path()), InputError);
  EXPECT_THROW(Journal(folder_.path() / "none" / "journal.jsonl"), InputError);
}

}  // namespace
}  // namespace fusion::sim
