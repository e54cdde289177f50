// The rounds of the thread that calls MPI, and how they end.
#include "exec/transport_mpi_calls.h"

namespace fusion::exec {
namespace {

constexpr double lively_s = 0.002;                     ///< after something has moved: naps are short
constexpr double quick_nap_s = 50e-6, nap_s = 200e-6;  ///< … and while something is waited for
constexpr double idle_nap_s = 4e-3;                    ///< while the rank computes and nothing is under way
constexpr double linger_s = 0.2;                       ///< after a failure, for the others to hear of it …
constexpr double abort_s = 1.0;                        ///< … where this rank is the cause

}  // namespace

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
