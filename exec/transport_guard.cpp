#include "exec/transport_guard.h"

#include <poll.h>
#include <unistd.h>

#include <map>

#include "exec/transport_end_signal.h"

namespace fusion::exec {
namespace {

constexpr int poll_ms = 20;
constexpr double settle_s = 0.2;  ///< for what a dead peer sent last to be read
constexpr double answer_s = 0.8;  ///< after SIGTERM, for the others to be heard of
constexpr double leave_s = 0.4;   ///< for the process to end by itself …
constexpr double speak_s = 1.8;   ///< … where it is about to, and the launcher gives it the time

class Guard {
 public:
  Guard(std::shared_ptr<RankState> state, const std::vector<ProcessName>& peers) : state_(std::move(state)) {
    polled_.push_back({signal_.event(), POLLIN, 0});
    polled_ranks_.push_back(state_->rank);
    for (int rank = 0; rank < static_cast<int>(peers.size()); ++rank)
      watch(rank, peers[static_cast<std::size_t>(rank)]);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    for (std::size_t i = 1; i < polled_.size(); ++i) ::close(polled_[i].fd);
  }

  void run() {
    while (!state_->finished) {
      look();
      judge_dead();
      judge_end();
      judge_hang();
      judge_work();
      looked_at_ = now();
      end_process_if_due();
    }
  }

 private:
  /// A process that can't be watched (not permitted, or gone already) is left to the heartbeats.
  void watch(int rank, const ProcessName& name) {
    const int process = rank == state_->rank ? -1 : open_process(name);
    if (process < 0) return;
    polled_.push_back({process, POLLIN, 0});
    polled_ranks_.push_back(rank);
  }

  void look() {
    if (::poll(polled_.data(), polled_.size(), poll_ms) <= 0) return;
    if (polled_[0].revents != 0) {
      signal_.take();
      told_at_ = now();
    }
    for (std::size_t i = 1; i < polled_.size(); ++i) {
      if (polled_[i].revents == 0) continue;
      ::close(polled_[i].fd);
      polled_[i].fd = -1;
      died_.emplace(polled_ranks_[i], Death{now(), state_->rounds});
    }
  }

  /// What a peer sent last may say that it ends in order, or because of another: the transport thread reads that first.
  void judge_dead() {
    for (const auto& [rank, death] : died_) {
      std::atomic<bool>& ended = state_->ended[static_cast<std::size_t>(rank)];
      if (ended) continue;
      const bool settled = state_->rounds >= death.rounds + 3 || (now() - death.seen).value > settle_s;
      if (!settled) continue;
      ended = true;
      state_->mailbox.fail({ExitCode::peer_lost, "rank " + std::to_string(rank) + " died"});
    }
  }

  /// The launcher ends a job whose rank has died, some time after that: who is heard of since has not.
  void judge_end() {
    if (!told_at_ || state_->mailbox.failure() || (now() - *told_at_).value < answer_s) return;
    std::string missing;
    for (int rank = 0; rank < state_->num_ranks; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      if (rank == state_->rank || state_->ended[place] || state_->heard_s[place] > told_at_->value) continue;
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
    if (!missing.empty())
      return state_->mailbox.fail(
          {ExitCode::peer_lost, "the launcher ends the job, and no answer comes from " + missing});
    if (!EndSignal::is_handled()) return state_->mailbox.fail({ExitCode::runtime_fault, "told to end (SIGTERM)"});
    told_at_.reset();
  }

  /// Inside one MPI call for longer than a peer may be silent. Not counted while this thread was stopped, too.
  void judge_hang() {
    const std::uint64_t rounds = state_->rounds;
    const bool was_stopped = (now() - looked_at_).value > state_->deadline_s / 2;
    if (rounds != rounds_seen_ || was_stopped) {
      rounds_seen_ = rounds;
      advanced_at_ = now();
    }
    if ((now() - advanced_at_).value > state_->deadline_s)
      state_->mailbox.fail({ExitCode::peer_lost, "no call of MPI has returned for " +
                                                     format(Seconds(state_->deadline_s)) + ", the deadline"});
  }

  /// Alive and never done. Only the time in which this thread ran counts, so that a stopped job may go on.
  void judge_work() {
    constexpr Seconds most_at_once(0.5);
    const std::optional<Activity> work = state_->mailbox.work();
    if (!work || work->number != work_seen_) {
      work_seen_ = work ? work->number : 0;
      worked_ = Seconds{};
      return;
    }
    worked_ += std::min(now() - looked_at_, most_at_once);
    if (work->limit && worked_ > *work->limit)
      state_->mailbox.fail({ExitCode::peer_lost, "rank " + std::to_string(state_->rank) + ", " + work->what +
                                                     ": not done after " + format(*work->limit) +
                                                     ", many times what its work has taken"});
  }

  void end_process_if_due() {
    const auto failure = state_->mailbox.failure();
    if (!failure) return;
    if (!failed_at_) failed_at_ = now();
    const bool speaks = state_->mailbox.has_thrown() && !told_at_;
    if ((now() - *failed_at_).value < (speaks ? speak_s : leave_s)) return;
    // A rank that fails for a reason of its own says so itself.
    const bool is_told = failure->heard && failure->code != ExitCode::peer_lost;
    if (!state_->mailbox.has_thrown() && !is_told) {
      const std::optional<Activity> work = state_->mailbox.work();
      const std::string line = "rank " + std::to_string(state_->rank) + ", " +
                               (work ? work->what : "not waiting for a message") + ": " + failure->reason + "\n";
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    }
    ::_exit(static_cast<int>(failure->code));
  }

  Seconds now() const { return state_->mailbox.clock().now(); }

  struct Death {
    Seconds seen{};
    std::uint64_t rounds = 0;
  };
  std::shared_ptr<RankState> state_;
  EndSignal signal_;
  std::vector<pollfd> polled_;  ///< the signal, then processes
  std::vector<int> polled_ranks_;
  std::map<int, Death> died_;
  std::optional<Seconds> told_at_, failed_at_;
  std::uint64_t rounds_seen_ = 0;
  Seconds looked_at_{}, advanced_at_{};
  std::uint64_t work_seen_ = 0;
  Seconds worked_{};
};

}  // namespace

std::thread start_guard(std::shared_ptr<RankState> state, const std::vector<ProcessName>& peers) {
  auto guard = std::make_shared<Guard>(std::move(state), peers);
  return std::thread([guard] { guard->run(); });
}

}  // namespace fusion::exec
