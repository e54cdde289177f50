// What has arrived at one rank and nobody has taken yet, and why no more will come. Both transports wait here.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "exec/transport.h"

namespace fusion::exec {

/// Seconds since a run started.
class RunClock {
 public:
  using Point = std::chrono::steady_clock::time_point;
  explicit RunClock(Point start) : start_(start) {}
  Seconds now() const;
  Point at(Seconds) const;  ///< ten years from the start at most

 private:
  Point start_;
};

/// Why a run can't go on. `reason` names the rank that it began at.
struct Failure {
  ExitCode code = ExitCode::peer_lost;
  std::string reason;
  bool heard = false;  ///< from another rank
};
/// What a rank does while it waits for nobody.
struct Activity {
  std::string what;
  std::optional<Seconds> limit;
  std::uint64_t number = 0;  ///< which one, from 1
};
/// Throws what stands for the code. `waiter` says who waited for what: "rank 1, waiting for x from rank 0".
[[noreturn]] void throw_failure(const Failure&, const std::string& waiter);

class Mailbox {
 public:
  Mailbox(int rank, RunClock clock) : rank_(rank), clock_(clock) {}

  // What a transport tells, from any thread.
  void deliver(std::vector<std::byte>, const Transfer&);  ///< can be taken from Transfer::end on
  void peer_ended(int peer);   ///< in order: fails those who wait for a message of it that is not there
  void peer_silent(int peer);  ///< from now on: fails all waits once the deadline has passed
  void fail(Failure);          ///< all waits, at once; the first failure stays
  void wake();                 ///< what a wait_for looks at has changed
  void set_deadline(Seconds);

  // Where a rank waits. Both throw what the failure stands for.
  std::vector<std::byte> receive(int peer, const MessageTag&, const std::string& waiting_for);
  /// Until `done`, which is asked under the mailbox's lock when woken and at `look_again`.
  void wait_for(const std::function<bool()>& done, std::optional<Seconds> look_again, const std::string& waiter);

  // What the rank says of itself.
  void begin_work(const std::string& what, std::optional<Seconds> limit);
  void end_work();
  std::optional<Activity> work() const;

  std::optional<Failure> failure() const;
  bool has_thrown() const;                 ///< whether a wait has thrown the failure, or the rank ends for its own
  void set_thrown();                       ///< the rank knows, and ends
  std::vector<std::string> heard() const;  ///< reasons of all failures that others have told
  std::vector<Transfer> take_transfers();  ///< those whose end has passed
  const RunClock& clock() const { return clock_; }

 private:
  struct Parcel {
    std::vector<std::byte> message;
    Seconds arrives{};
  };
  using Lock = std::unique_lock<std::mutex>;
  void throw_if_failed(const std::string& waiter);
  void wait(Lock&, std::optional<Seconds> until);
  std::optional<std::vector<std::byte>> take(std::deque<Parcel>&) const;

  const int rank_;
  const RunClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, MessageTag>, std::deque<Parcel>> parcels_;
  std::vector<Transfer> transfers_;
  std::set<int> ended_;
  std::map<int, Seconds> silent_since_;
  std::optional<Failure> failure_;
  std::vector<std::string> heard_;
  bool has_thrown_ = false;
  Activity activity_;
  bool works_ = false;
  Seconds deadline_{10};
};

}  // namespace fusion::exec
