// Starts mpirun with the product's flags and tells how it ended, for tests.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace fusion::exec {

class MpiJob {
 public:
  /// `command` is the program and its arguments; "{folder}" at the start of one stands for folder().
  MpiJob(int num_ranks, std::vector<std::string> command, std::vector<std::string> more_flags = {});
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;
  ~MpiJob();  ///< ends what still runs

  /// The processes of the ranks, once each has written its own to folder()/pid.RANK. Throws after a minute.
  std::vector<int> pids();
  /// All ranks have ended and mpirun does not: with Open MPI 4.1.4 seen once, in its PMIx_server_finalize, after a
  /// failed start.
  static constexpr int mpirun_hung = -2;
  /// Exit code of mpirun; where it had to be ended after `limit`, `mpirun_hung` or else -1.
  int wait(std::chrono::seconds limit);
  std::string output() const;  ///< of all ranks and mpirun
  /// Exit code of each rank, as its wrapper saw it; nothing where the wrapper was killed before it said.
  std::vector<std::optional<int>> exit_codes() const;
  /// When each rank ended, in seconds since 1970, likewise.
  std::vector<std::optional<double>> exit_times_s() const;
  /// Processes of ranks that still run.
  std::vector<int> orphans();
  const std::filesystem::path& folder() const { return temporary_.path(); }

 private:
  TemporaryFolder temporary_;
  int num_ranks_;
  int mpirun_ = -1;
  std::vector<int> pids_;
};

}  // namespace fusion::exec
