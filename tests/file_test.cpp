// Whole files: what can't be written is told before the work, what was there stays until the new one is whole, and the
// disk's faults are told from the user's.
#include "core/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <functional>

#include "core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {
namespace fs = std::filesystem;

using testing::HasSubstr;

/// "3: MESSAGE" or "5: MESSAGE", by the exit code that it comes to.
std::string failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return std::string("3: ") + error.what();
  } catch (const RuntimeFault& error) {
    return std::string("5: ") + error.what();
  }
  return "none";
}

class File : public testing::Test {
 protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  std::ptrdiff_t num_files() const { return std::distance(fs::directory_iterator(folder_.path()), {}); }
  TemporaryFolder folder_;
};

TEST_F(File, WhatCannotBeWrittenIsToldBeforeAndAfterInTheSameWords) {
  write_text(path("file"), "old");
  struct Case {
    fs::path path;
    const char* says;
  };
  const Case cases[] = {{folder_.path(), "3: "},
                        {folder_.path(), "can't be written: Is a directory"},
                        {path("no/such.json"), "3: "},
                        {path("no/such.json"), "can't be written: there is no folder"},
                        {path("file/below.json"), "3: "},
                        {path("new/"), "3: "},
                        {"/dev/full", "5: /dev/full: can't be written: No space left on device"},
                        {path(std::string(300, 'x').c_str()), "can't be written: File name too long"}};
  for (const Case& each : cases) {
    EXPECT_THAT(failure_of([&] { require_writable(each.path); }), HasSubstr(each.says)) << each.path;
    EXPECT_THAT(failure_of([&] { write_text(each.path, "new"); }), HasSubstr(each.says)) << each.path;
  }
  EXPECT_EQ(num_files(), 1);
  EXPECT_EQ(read_text(path("file")), "old");
}

TEST_F(File, AskingChangesNothing) {
  require_writable(path("new"));
  EXPECT_EQ(num_files(), 0);
  write_text(path("old"), "old");
  const auto before = fs::last_write_time(path("old"));
  require_writable(path("old"));
  EXPECT_EQ(read_text(path("old")), "old");
  EXPECT_EQ(fs::last_write_time(path("old")), before);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  require_writable(path("pipe"));  // opening it would wait for a reader
  require_writable("/dev/null");
}

TEST_F(File, AFullDiskIsAFaultOfTheRunAndLeavesWhatWasThere) {
  write_text(path("old"), "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // write fails as it does on a full disk, with another errno
  const rlimit full{2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const std::string failure = failure_of([&] { write_text(path("old"), "much longer"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(failure, HasSubstr("5: "));
  EXPECT_THAT(failure, HasSubstr("old: can't be written: File too large"));
  EXPECT_EQ(read_text(path("old")), "old");
  EXPECT_EQ(num_files(), 1);
}

}  // namespace
}  // namespace fusion
