#include "exec/transport_mailbox.h"

#include <algorithm>

namespace fusion::exec {
namespace {

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

Seconds RunClock::now() const {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
}

RunClock::Point RunClock::at(Seconds time) const {
  constexpr double ten_years_s = 3.2e8;
  const std::chrono::duration<double> offset(std::min(time.value, ten_years_s));
  return start_ + std::chrono::ceil<std::chrono::steady_clock::duration>(offset);
}

void throw_failure(const Failure& failure, const std::string& waiter) {
  switch (failure.code) {
    case ExitCode::usage:
    case ExitCode::bad_input:
      throw InputError("", "", failure.reason);
    case ExitCode::infeasible:
      throw Infeasible(failure.reason);
    case ExitCode::peer_lost:
      throw PeerLost(waiter + ": " + failure.reason);
    default:
      throw RuntimeFault(failure.reason);
  }
}

void Mailbox::deliver(std::vector<std::byte> message, const Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  parcels_[{transfer.from, transfer.tag}].push_back({std::move(message), transfer.end});
  transfers_.push_back(transfer);
  changed_.notify_all();
}

void Mailbox::peer_ended(int peer) {
  const std::lock_guard lock(mutex_);
  ended_.insert(peer);
  changed_.notify_all();
}

void Mailbox::peer_silent(int peer) {
  const std::lock_guard lock(mutex_);
  silent_since_.try_emplace(peer, clock_.now());
  changed_.notify_all();
}

void Mailbox::fail(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (failure.heard) heard_.push_back(failure.reason);
  if (!failure_) failure_ = std::move(failure);
  changed_.notify_all();
}

void Mailbox::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Mailbox::set_deadline(Seconds deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
  changed_.notify_all();
}

void Mailbox::begin_work(const std::string& what, std::optional<Seconds> limit) {
  const std::lock_guard lock(mutex_);
  activity_ = {what, limit, activity_.number + 1};
  works_ = true;
}

void Mailbox::end_work() {
  const std::lock_guard lock(mutex_);
  works_ = false;
}

std::optional<Activity> Mailbox::work() const {
  const std::lock_guard lock(mutex_);
  return works_ ? std::optional(activity_) : std::nullopt;
}

std::vector<std::string> Mailbox::heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

void Mailbox::set_thrown() {
  const std::lock_guard lock(mutex_);
  has_thrown_ = true;
}

std::optional<Failure> Mailbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Mailbox::has_thrown() const {
  const std::lock_guard lock(mutex_);
  return has_thrown_;
}

void Mailbox::throw_if_failed(const std::string& waiter) {
  for (const auto& [peer, since] : silent_since_)
    if (!failure_ && clock_.now() >= since + deadline_)
      failure_ = Failure{ExitCode::peer_lost,
                         rank_name(peer) + " has not been heard of for " + format(deadline_) + ", the deadline"};
  if (!failure_) return;
  has_thrown_ = true;
  throw_failure(*failure_, waiter);
}

void Mailbox::wait(Lock& lock, std::optional<Seconds> until) {
  for (const auto& [peer, since] : silent_since_)
    until = std::min(until.value_or(since + deadline_), since + deadline_);
  if (until)
    changed_.wait_until(lock, clock_.at(*until));
  else
    changed_.wait(lock);
}

std::optional<std::vector<std::byte>> Mailbox::take(std::deque<Parcel>& parcels) const {
  if (parcels.empty() || parcels.front().arrives > clock_.now()) return {};
  std::vector<std::byte> message = std::move(parcels.front().message);
  parcels.pop_front();
  return message;
}

std::vector<std::byte> Mailbox::receive(int peer, const MessageTag& tag, const std::string& waiting_for) {
  const std::string waiter = rank_name(rank_) + ", waiting for " + waiting_for + " from " + rank_name(peer);
  const std::pair key(peer, tag);
  Lock lock(mutex_);
  for (;;) {
    throw_if_failed(waiter);
    auto& parcels = parcels_[key];
    if (auto message = take(parcels)) {
      if (parcels.empty()) parcels_.erase(key);
      return std::move(*message);
    }
    if (parcels.empty() && ended_.contains(peer)) throw PeerLost(waiter + ": " + rank_name(peer) + " has ended");
    wait(lock, parcels.empty() ? std::nullopt : std::optional(parcels.front().arrives));
  }
}

void Mailbox::wait_for(const std::function<bool()>& done, std::optional<Seconds> look_again,
                       const std::string& waiter) {
  Lock lock(mutex_);
  for (;;) {
    throw_if_failed(waiter);
    if (done()) return;
    wait(lock, look_again);
  }
}

std::vector<Transfer> Mailbox::take_transfers() {
  const std::lock_guard lock(mutex_);
  const Seconds now = clock_.now();
  const auto later = std::stable_partition(transfers_.begin(), transfers_.end(),
                                           [&](const Transfer& transfer) { return transfer.end <= now; });
  std::vector<Transfer> arrived(transfers_.begin(), later);
  transfers_.erase(transfers_.begin(), later);
  return arrived;
}

}  // namespace fusion::exec
