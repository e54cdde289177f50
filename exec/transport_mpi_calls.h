// The thread that makes every call of MPI, from MPI_Init to MPI_Finalize. Only transport_mpi*.cpp include this.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <utility>

#include "exec/transport_mpi_thread.h"
#include "exec/transport_queues.h"

namespace fusion::exec {

inline constexpr int frame_tag = 1, chunk_tag = 2, sync_tag = 3;
inline constexpr int frames_posted = 4;     ///< receives of frames that are always open, per peer
inline constexpr int chunks_in_flight = 4;  ///< sends of chunks, per peer

class MpiError : public RuntimeFault {
 public:
  using RuntimeFault::RuntimeFault;
};

/// Throws MpiError where the call failed.
void must(int code, const char* call);

/// The one who calls MPI. Lives in its thread.
class MpiThread {
 public:
  MpiThread() = default;
  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

  Joined join();
  void run();
  void finalize();  ///< in order, when nothing is under way

 private:
  /// One request under way, and what it is for.
  struct Job {
    enum class Kind { none, frame_in, chunk_in, frame_out, heartbeat_out, chunk_out };
    Job() = default;
    Job(Kind its_kind, int its_peer) : kind(its_kind), peer(its_peer) {}

    Kind kind = Kind::none;
    int peer = 0;
    std::vector<std::byte> frame;  ///< its buffer, where it is a frame
    SharedBytes message;           ///< keeps the bytes of a chunk that leaves
    std::uint64_t number = 0;      ///< message of a chunk that arrives
    std::int64_t bytes = 0;        ///< expected
    std::uint64_t order = 0;       ///< of frames that arrive from the peer
  };
  struct Peer {
    Outbox outbox;
    Inbox inbox;
    std::uint64_t frames_opened = 0, frames_read = 0;
    std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> early;  ///< frames that wait for one before them
    int chunks_in = 0, chunks_out = 0;
    bool heartbeat_under_way = false, failure_heard = false;
    Seconds spoke{};
  };

  Seconds now() const { return state_->mailbox.clock().now(); }
  Peer& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  std::atomic<bool>& ended(int peer) { return state_->ended[static_cast<std::size_t>(peer)]; }
  std::atomic<double>& heard(int peer) { return state_->heard_s[static_cast<std::size_t>(peer)]; }
  template <class Verb>
  void for_peers(Verb verb) {
    for (int peer = 0; peer < state_->num_ranks; ++peer)
      if (peer != state_->rank) verb(peer);
  }

  RunClock synchronised_clock(int rank, int num_ranks) const;
  std::pair<Job&, MPI_Request&> new_job(Job);
  void open_frame(int peer);
  void send_frame(int peer, std::vector<std::byte> wire, Job::Kind = Job::Kind::frame_out);
  bool take_submissions();
  bool complete_requests();
  void complete(std::size_t place, const MPI_Status&);
  void read_frames(int peer);
  void read_frame(int peer, std::span<const std::byte> wire);
  bool pump(int peer);
  void hand_on(int peer);
  void speak(int peer);
  void judge_silence();
  bool leave_after_failure();
  bool leave_in_order();
  void nap(bool active);

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::shared_ptr<RankState> state_;
  std::shared_ptr<Handover> handover_;
  std::vector<Peer> peers_;
  std::vector<MPI_Request> requests_;
  std::vector<Job> jobs_;  ///< same places
  std::vector<std::size_t> free_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
  int sends_under_way_ = 0;
  Seconds round_at_{}, progress_at_{};
  std::optional<Seconds> failed_at_;
};

}  // namespace fusion::exec
