// Sees what MPI hides: processes that died, a launcher that ends the job, a transport thread that hangs inside MPI, and
// work of this rank that never ends. It makes every wait throw, and sees to it that the process then ends.
//
// Measured with Open MPI 4.1.4: the launcher learns of a dead rank at once, and sends SIGTERM to the others, then
// SIGKILL (launch_flags.h says when); over TCP a survivor that is inside MPI when its peer hangs up never comes out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "exec/transport_mailbox.h"
#include "exec/transport_process.h"

namespace fusion::exec {

/// What the threads of one rank know of each other's work.
struct RankState {
  RankState(int its_rank, int ranks, RunClock clock)
      : rank(its_rank),
        num_ranks(ranks),
        mailbox(its_rank, clock),
        ended(static_cast<std::size_t>(ranks)),
        heard_s(static_cast<std::size_t>(ranks)) {}

  const int rank, num_ranks;
  Mailbox mailbox;
  std::atomic<std::uint64_t> rounds = 0;     ///< of the transport thread
  std::vector<std::atomic<bool>> ended;      ///< by rank: in order, or known to be dead
  std::vector<std::atomic<double>> heard_s;  ///< by rank: when it was last heard of
  std::atomic<double> deadline_s = 10;
  std::atomic<bool> finished = false;  ///< in order; nothing is left to guard
};

/// A thread. It catches SIGTERM while it runs, and passes it on to the handler that was there before. Where `peers`
/// name processes of this machine, it watches them; its own entry is ignored. After a failure it ends the process with
/// the failure's exit code, unless that has ended by itself within a moment: so it may be abandoned.
std::thread start_guard(std::shared_ptr<RankState>, const std::vector<ProcessName>& peers);

}  // namespace fusion::exec
