// Runs a program as a user would, and keeps what it said.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace fusion {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

/// A shell command line; its standard input is empty.
inline Outcome run_program(const std::string& command) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string(), err = (folder.path() / "err").string();
  const int status = std::system((command + " </dev/null >" + out + " 2>" + err).c_str());
  const auto text_of = [](const std::string& path) {
    return std::filesystem::file_size(path) == 0 ? std::string() : read_text(path);
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out), text_of(err)};
}

/// The same on a disk without room for a byte, as the program sees it; `out` has both streams.
inline Outcome run_on_a_full_disk(const std::string& command) {
  return run_program("bash -o pipefail -c \"(trap '' XFSZ; ulimit -f 0; " + command + " 2>&1) | cat\"");
}

}  // namespace fusion
