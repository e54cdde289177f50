#include "exec/transport_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fusion::exec {
namespace {

constexpr int poll_ms = 20;
constexpr double settle_s = 0.2;  ///< for what a dead peer sent last to be read
constexpr double answer_s = 0.8;  ///< after SIGTERM, for the others to be heard of
constexpr double leave_s = 0.4;   ///< for the process to end by itself …
constexpr double speak_s = 1.2;   ///< … where it is about to, and the launcher gives it the time

/// What the signal handler uses.
std::atomic<int> end_event = -1;
std::atomic<void (*)(int)> program_handler = nullptr;

extern "C" void on_end(int signal) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(end_event, &one, sizeof one);
  if (const auto handler = program_handler.load()) handler(signal);
}

/// SIGTERM goes to an event while this lives.
class EndSignal {
 public:
  EndSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_ < 0) throw RuntimeFault("no event can be made: the process has too many open files");
    end_event = event_;
    struct sigaction action = {};
    action.sa_handler = on_end;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGTERM, nullptr, &before_);
    if (before_.sa_handler != SIG_DFL && before_.sa_handler != SIG_IGN) program_handler = before_.sa_handler;
    ::sigaction(SIGTERM, &action, nullptr);
  }
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;
  ~EndSignal() {
    ::sigaction(SIGTERM, &before_, nullptr);
    program_handler = nullptr;
    end_event = -1;
    ::close(event_);
  }
  int event() const { return event_; }
  /// Whether the program has a handler of its own, so that it ends in its own way when asked to.
  static bool is_handled() { return program_handler.load() != nullptr; }

 private:
  int event_;
  struct sigaction before_ = {};
};

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
      end_process_if_due();
    }
  }

 private:
  /// A process that can't be watched (not permitted, or gone already) is left to the heartbeats.
  void watch(int rank, const ProcessName& name) {
    if (rank == state_->rank || name.kernel != this_process().kernel) return;
    // The wrapper of glibc 2.36 has no C linkage.
    const int process = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(name.id), 0U));
    if (process < 0) return;
    polled_.push_back({process, POLLIN, 0});
    polled_ranks_.push_back(rank);
  }

  void look() {
    if (::poll(polled_.data(), polled_.size(), poll_ms) <= 0) return;
    if (polled_[0].revents != 0) {
      std::uint64_t times = 0;
      [[maybe_unused]] const auto taken = ::read(signal_.event(), &times, sizeof times);
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
    looked_at_ = now();
    if ((now() - advanced_at_).value > state_->deadline_s)
      state_->mailbox.fail({ExitCode::peer_lost, "no call of MPI has returned for " +
                                                     format(Seconds(state_->deadline_s)) + ", the deadline"});
  }

  void end_process_if_due() {
    const auto failure = state_->mailbox.failure();
    if (!failure) return;
    if (!failed_at_) failed_at_ = now();
    const bool speaks = state_->mailbox.has_thrown() && !told_at_;
    if ((now() - *failed_at_).value < (speaks ? speak_s : leave_s)) return;
    if (!state_->mailbox.has_thrown()) {
      const std::string line =
          "rank " + std::to_string(state_->rank) + ", not waiting for a message: " + failure->reason + "\n";
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
};

}  // namespace

ProcessName this_process() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(boot, text);
  std::error_code unknown;
  text += std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  // Without a boot id no two processes share a kernel that we know of: each gets a name of its own.
  if (!boot || unknown) text += std::to_string(::getpid()) + "@" + std::to_string(std::random_device{}());
  return {XXH3_64bits(text.data(), text.size()), ::getpid()};
}

std::thread start_guard(std::shared_ptr<RankState> state, const std::vector<ProcessName>& peers) {
  auto guard = std::make_shared<Guard>(std::move(state), peers);
  return std::thread([guard] { guard->run(); });
}

}  // namespace fusion::exec
