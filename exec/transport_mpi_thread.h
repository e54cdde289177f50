// Between a rank's own thread and the one that calls MPI.
#pragma once

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/transport_frame.h"
#include "exec/transport_guard.h"
#include "exec/transport_link.h"

namespace fusion::exec {

/// Something to send, in the order of its pair.
struct Submission {
  int peer = 0;
  Frame frame;
  std::vector<std::byte> message;
  Passage passage;
  bool shaped = false;  ///< the passage counts
};

struct Handover {
  explicit Handover(int num_ranks) : flushed(static_cast<std::size_t>(num_ranks)) {}

  std::mutex mutex;
  std::condition_variable changed;                  ///< there are submissions
  std::vector<Submission> submissions;              ///< under the mutex
  std::atomic<int> num_waiting = 0;                 ///< the rank's own threads that wait for something to arrive
  std::atomic<bool> leaving = false;                ///< in order; goodbyes have been submitted
  std::atomic<bool> aborting = false;               ///< this rank is the cause of the failure
  std::vector<std::atomic<std::uint64_t>> flushed;  ///< by peer: how many of our messages it says it has
};

struct Joined {
  std::shared_ptr<RankState> state;
  std::shared_ptr<Handover> handover;
  std::vector<ProcessName> processes;  ///< by rank
};

/// The whole life of the thread that calls MPI: joins the run, says so, works until the run ends in order (MPI is
/// finalized then) or fails (it is not: MPI_Finalize would wait for the dead).
void run_mpi_thread(std::promise<Joined>);

}  // namespace fusion::exec
