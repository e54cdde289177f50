// Messages on their way: requests of MPI, what arrives, what leaves.
#include "exec/transport_mpi_calls.h"

namespace fusion::exec {
namespace {

constexpr int chunks_posted = 8;     ///< receives of chunks, per peer
constexpr double heartbeat_s = 0.1;  ///< at most

}  // namespace

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

}  // namespace fusion::exec
