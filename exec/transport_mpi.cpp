// The only source that knows MPI: the thread that makes every call, from MPI_Init to MPI_Finalize.
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "exec/transport_mpi_thread.h"
#include "exec/transport_queues.h"

namespace fusion::exec {
namespace {

constexpr int frame_tag = 1, chunk_tag = 2, sync_tag = 3;
constexpr int frames_posted = 4;                       ///< receives of frames that are always open, per peer
constexpr int chunks_posted = 8;                       ///< receives of chunks, per peer
constexpr int chunks_in_flight = 4;                    ///< sends of chunks, per peer
constexpr double lively_s = 0.002;                     ///< after something has moved: naps are short
constexpr double quick_nap_s = 50e-6, nap_s = 200e-6;  ///< … and while something is waited for
constexpr double idle_nap_s = 4e-3;                    ///< while the rank computes and nothing is under way
constexpr double heartbeat_s = 0.1;                    ///< at most
constexpr double linger_s = 0.2;                       ///< after a failure, for the others to hear of it …
constexpr double abort_s = 1.0;                        ///< … where this rank is the cause

class MpiError : public RuntimeFault {
 public:
  using RuntimeFault::RuntimeFault;
};

void must(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(std::string(call) + ": " + text.data());
}

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

// ---- joining ----

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

// ---- requests ----

std::pair<MpiThread::Job&, MPI_Request&> MpiThread::new_job(Job job) {
  if (free_.empty()) {
    free_.push_back(requests_.size());
    requests_.push_back(MPI_REQUEST_NULL);
    jobs_.emplace_back();
  }
  const std::size_t place = free_.back();
  free_.pop_back();
  jobs_[place] = std::move(job);
  return {jobs_[place], requests_[place]};
}

void MpiThread::open_frame(int peer) {
  Job job(Job::Kind::frame_in, peer);
  job.frame.resize(Frame::header_bytes + Frame::inline_bytes);
  job.order = of(peer).frames_opened++;
  const auto [open, request] = new_job(std::move(job));
  must(MPI_Irecv(open.frame.data(), static_cast<int>(open.frame.size()), MPI_BYTE, peer, frame_tag, comm_, &request),
       "MPI_Irecv");
}

void MpiThread::send_frame(int peer, std::vector<std::byte> wire, Job::Kind kind) {
  Job job(kind, peer);
  job.frame = std::move(wire);
  const auto [open, request] = new_job(std::move(job));
  ++sends_under_way_;
  of(peer).spoke = now();
  must(MPI_Isend(open.frame.data(), static_cast<int>(open.frame.size()), MPI_BYTE, peer, frame_tag, comm_, &request),
       "MPI_Isend");
}

bool MpiThread::complete_requests() {
  int num_done = 0;
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &num_done, done_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) must(code, "MPI_Testsome");
  if (num_done == MPI_UNDEFINED) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(num_done); ++i) {
    if (code == MPI_ERR_IN_STATUS) must(statuses_[i].MPI_ERROR, "MPI_Testsome");
    complete(static_cast<std::size_t>(done_[i]), statuses_[i]);
  }
  return num_done > 0;
}

void MpiThread::complete(std::size_t place, const MPI_Status& status) {
  Job job = std::exchange(jobs_[place], {});
  free_.push_back(place);
  Peer& peer = of(job.peer);
  int bytes = 0;
  switch (job.kind) {
    case Job::Kind::frame_in:
      must(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      job.frame.resize(static_cast<std::size_t>(bytes));
      peer.early.emplace_back(job.order, std::move(job.frame));
      heard(job.peer) = now().value;
      read_frames(job.peer);
      break;
    case Job::Kind::chunk_in:
      must(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      if (bytes != job.bytes)
        throw RuntimeFault("a chunk of " + std::to_string(bytes) + " bytes arrived from rank " +
                           std::to_string(job.peer) + " where " + std::to_string(job.bytes) + " were due");
      --peer.chunks_in;
      heard(job.peer) = now().value;
      peer.inbox.filled(job.number);
      hand_on(job.peer);
      break;
    case Job::Kind::heartbeat_out:
      peer.heartbeat_under_way = false;
      [[fallthrough]];
    case Job::Kind::frame_out:
      --sends_under_way_;
      break;
    case Job::Kind::chunk_out:
      --sends_under_way_;
      --peer.chunks_out;
      break;
    case Job::Kind::none:
      check(false, "a request that is done has a job");
  }
}

// ---- what arrives ----

/// MPI completes receives in any order; frames are read in the order they were sent.
void MpiThread::read_frames(int peer) {
  auto& early = of(peer).early;
  for (;;) {
    const auto next = std::ranges::find(early, of(peer).frames_read, [](const auto& one) { return one.first; });
    if (next == early.end()) return;
    const auto wire = std::move(next->second);
    early.erase(next);
    ++of(peer).frames_read;
    open_frame(peer);
    read_frame(peer, wire);
  }
}

void MpiThread::read_frame(int peer, std::span<const std::byte> wire) {
  const Frame frame = decode(wire);
  const auto payload = wire.subspan(Frame::header_bytes);
  switch (frame.kind) {
    case Frame::Kind::message:
    case Frame::Kind::flush:
    case Frame::Kind::goodbye:
      of(peer).inbox.announce(frame, payload);
      hand_on(peer);
      break;
    case Frame::Kind::heartbeat:
      break;
    case Frame::Kind::flushed:
      handover_->flushed[static_cast<std::size_t>(peer)] = frame.number;
      state_->mailbox.wake();
      break;
    case Frame::Kind::failure:
      of(peer).failure_heard = true;
      ended(peer) = true;
      state_->mailbox.fail({frame.code, {reinterpret_cast<const char*>(payload.data()), payload.size()}, true});
      break;
  }
}

/// Opens receives for chunks, and gives the rank what is whole.
void MpiThread::hand_on(int peer) {
  Peer& from = of(peer);
  while (from.chunks_in < chunks_posted) {
    const auto place = from.inbox.next_place();
    if (!place) break;
    Job job(Job::Kind::chunk_in, peer);
    job.number = place->number;
    job.bytes = place->bytes;
    const auto [open, request] = new_job(std::move(job));
    ++from.chunks_in;
    must(MPI_Irecv(place->data, static_cast<int>(place->bytes), MPI_BYTE, peer, chunk_tag, comm_, &request),
         "MPI_Irecv");
  }
  while (auto arrived = from.inbox.take()) {
    const Frame& frame = arrived->frame;
    if (frame.kind == Frame::Kind::message) {
      const Bytes bytes(static_cast<std::int64_t>(frame.bytes));
      state_->mailbox.deliver(std::move(arrived->message),
                              {peer, state_->rank, frame.tag, bytes, std::min(frame.start, now()), now()});
    } else if (frame.kind == Frame::Kind::flush) {
      Frame reply;
      reply.kind = Frame::Kind::flushed;
      reply.number = frame.number;
      send_frame(peer, encode(reply));
    } else {
      ended(peer) = true;
      state_->mailbox.peer_ended(peer);
    }
  }
}

// ---- what leaves ----

bool MpiThread::take_submissions() {
  std::vector<Submission> taken;
  {
    const std::lock_guard lock(handover_->mutex);
    taken.swap(handover_->submissions);
  }
  for (auto& one : taken) of(one.peer).outbox.push(one.frame, std::move(one.message), one.passage, one.shaped);
  return !taken.empty();
}

bool MpiThread::pump(int peer) {
  Peer& to = of(peer);
  bool active = false;
  for (;;) {
    if (auto wire = to.outbox.next_frame(now())) {
      send_frame(peer, std::move(*wire));
      active = true;
      continue;
    }
    if (to.chunks_out >= chunks_in_flight) return active;
    auto chunk = to.outbox.next_chunk(now());
    if (!chunk) return active;
    Job job(Job::Kind::chunk_out, peer);
    job.message = chunk->message;
    const auto [open, request] = new_job(std::move(job));
    ++to.chunks_out;
    ++sends_under_way_;
    must(MPI_Isend(chunk->message->data() + chunk->offset, static_cast<int>(chunk->bytes), MPI_BYTE, peer, chunk_tag,
                   comm_, &request),
         "MPI_Isend");
    active = true;
  }
}

/// A heartbeat, where the peer has heard nothing of late and the last one is not still on its way.
void MpiThread::speak(int peer) {
  Peer& to = of(peer);
  if (ended(peer) || to.heartbeat_under_way || (now() - to.spoke).value < heartbeat_s) return;
  to.heartbeat_under_way = true;
  Frame frame;
  frame.kind = Frame::Kind::heartbeat;
  send_frame(peer, encode(frame), Job::Kind::heartbeat_out);
}

// ---- how it ends ----

void MpiThread::judge_silence() {
  const Seconds deadline(state_->deadline_s);
  // Who was stopped itself has heard nobody; what they said meanwhile is read first.
  const Seconds own_gap = now() - round_at_;
  if (own_gap > deadline * 0.5) for_peers([&](int peer) { heard(peer) = heard(peer) + own_gap.value; });
  round_at_ = now();
  for_peers([&](int peer) {
    if (ended(peer) || now().value - heard(peer) < deadline.value) return;
    ended(peer) = true;
    state_->mailbox.fail({ExitCode::peer_lost, "rank " + std::to_string(peer) + " has not been heard of for " +
                                                   format(deadline) + ", the deadline"});
  });
}

/// All who fail say so to all: whoever has heard it from every other has nothing left to do.
bool MpiThread::leave_after_failure() {
  const auto failure = state_->mailbox.failure();
  if (!failure) return false;
  if (!failed_at_) {
    failed_at_ = now();
    const std::string reason = failure->reason.substr(0, Frame::inline_bytes);
    Frame frame;
    frame.kind = Frame::Kind::failure;
    frame.bytes = reason.size();
    frame.code = failure->code;
    for_peers([&](int peer) { send_frame(peer, encode(frame, std::as_bytes(std::span(reason)))); });
  }
  bool all_heard = true;
  for_peers([&](int peer) { all_heard &= of(peer).failure_heard || ended(peer); });
  const double waited_s = (now() - *failed_at_).value;
  if (all_heard && sends_under_way_ == 0) return true;
  return waited_s > (handover_->aborting ? abort_s : linger_s);
}

bool MpiThread::leave_in_order() {
  if (!handover_->leaving) return false;
  {
    const std::lock_guard lock(handover_->mutex);
    if (!handover_->submissions.empty()) return false;  // the goodbyes
  }
  bool done = sends_under_way_ == 0, all_ended = true;
  for_peers([&](int peer) {
    done &= of(peer).outbox.empty();
    all_ended &= ended(peer);
  });
  return done && all_ended;
}

void MpiThread::nap(bool active) {
  if (active) {
    progress_at_ = now();
    return;
  }
  const bool lively = (now() - progress_at_).value < lively_s;
  bool awaited = handover_->num_waiting > 0 || sends_under_way_ > 0;
  for_peers([&](int peer) { awaited |= !of(peer).inbox.empty(); });
  Seconds until = now() + Seconds(lively ? quick_nap_s : awaited ? nap_s : idle_nap_s);
  for_peers([&](int peer) {
    if (of(peer).chunks_out >= chunks_in_flight) return;
    if (const auto due = of(peer).outbox.due()) until = std::min(until, *due);
  });
  std::unique_lock lock(handover_->mutex);
  if (!handover_->submissions.empty() || (!awaited && handover_->num_waiting > 0)) return;
  handover_->changed.wait_until(lock, state_->mailbox.clock().at(until));
}

void MpiThread::run() {
  round_at_ = now();
  for_peers([&](int peer) {
    heard(peer) = now().value;
    for (int i = 0; i < frames_posted; ++i) open_frame(peer);
  });
  for (;;) {
    bool active = take_submissions();
    if (!requests_.empty()) active |= complete_requests();
    for_peers([&](int peer) { active |= pump(peer); });
    for_peers([&](int peer) { speak(peer); });
    judge_silence();
    ++state_->rounds;
    if (leave_after_failure()) return;
    if (leave_in_order()) return finalize();
    nap(active);
  }
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

}  // namespace

std::string mpi_missing() { return {}; }

void run_mpi_thread(std::promise<Joined> joining) {
  MpiThread mpi;
  Joined joined;
  try {
    joined = mpi.join();
    joining.set_value(joined);
  } catch (...) {
    return joining.set_exception(std::current_exception());
  }
  RankState& state = *joined.state;
  const std::string rank = "rank " + std::to_string(state.rank) + ": ";
  try {
    mpi.run();
  } catch (const MpiError& error) {
    // A connection that breaks: the guard, or a peer's last word, may know more of why.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    state.mailbox.fail({ExitCode::peer_lost, rank + error.what()});
  } catch (const std::exception& error) {
    state.mailbox.fail({ExitCode::runtime_fault, rank + error.what()});
  }
}

}  // namespace fusion::exec
