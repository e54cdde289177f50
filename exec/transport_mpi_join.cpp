// How ranks join each other, and leave in order.
#include <sys/prctl.h>

#include <array>
#include <csignal>

#include "exec/transport_mpi_calls.h"

namespace fusion::exec {

void must(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(std::string(call) + ": " + text.data());
}

/// The time of rank 0, by the quickest of some round trips.
RunClock MpiThread::synchronised_clock(int rank, int num_ranks) const {
  constexpr int num_trips = 8;
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const RunClock own(start);
  double ahead_s = 0, quickest_s = 1e9;
  for (int peer = 1; peer < num_ranks; ++peer)
    for (int trip = 0; trip < num_trips; ++trip) {
      double time_s = own.now().value;
      if (rank == 0) {
        must(MPI_Recv(nullptr, 0, MPI_BYTE, peer, sync_tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
        time_s = own.now().value;
        must(MPI_Send(&time_s, 1, MPI_DOUBLE, peer, sync_tag, comm_), "MPI_Send");
      } else if (rank == peer) {
        const double asked_s = time_s;
        must(MPI_Send(nullptr, 0, MPI_BYTE, 0, sync_tag, comm_), "MPI_Send");
        must(MPI_Recv(&time_s, 1, MPI_DOUBLE, 0, sync_tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
        const double trip_s = own.now().value - asked_s;
        if (trip_s >= quickest_s) continue;
        quickest_s = trip_s;
        ahead_s = time_s - (asked_s + trip_s / 2);
      }
    }
  return RunClock(start - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(ahead_s)));
}

Joined MpiThread::join() {
  std::signal(SIGPIPE, SIG_IGN);                   // else a write to a peer that has just died kills this process too
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // short sleeps are short
  int provided = 0, rank = 0, num_ranks = 0;
  must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) throw RuntimeFault("this MPI allows no threads (MPI_THREAD_FUNNELED)");
  must(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  must(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  must(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  must(MPI_Comm_size(comm_, &num_ranks), "MPI_Comm_size");

  const ProcessName own = this_process();
  std::vector<ProcessName> processes(static_cast<std::size_t>(num_ranks));
  static_assert(std::is_trivially_copyable_v<ProcessName>);
  must(MPI_Allgather(&own, sizeof own, MPI_BYTE, processes.data(), sizeof own, MPI_BYTE, comm_), "MPI_Allgather");
  state_ = std::make_shared<RankState>(rank, num_ranks, synchronised_clock(rank, num_ranks));
  handover_ = std::make_shared<Handover>(num_ranks);
  peers_.resize(static_cast<std::size_t>(num_ranks));
  must(MPI_Barrier(comm_), "MPI_Barrier");
  return {state_, handover_, std::move(processes)};
}

void MpiThread::finalize() {
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    must(MPI_Cancel(&request), "MPI_Cancel");
    must(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  }
  must(MPI_Comm_free(&comm_), "MPI_Comm_free");
  must(MPI_Finalize(), "MPI_Finalize");
  state_->finished = true;
}

}  // namespace fusion::exec
