#include "exec/transport_start.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "exec/transport_end_signal.h"
#include "exec/transport_process.h"

namespace fusion::exec {
namespace {

constexpr int poll_ms = 20;
constexpr double speak_s = 0.1;   ///< from one datagram to the next
constexpr double settle_s = 0.2;  ///< for what a dead rank sent last to be read
constexpr double answer_s = 0.8;  ///< after SIGTERM, for the others to be heard of

/// What ranks of one machine tell each other.
struct Sign {
  enum class Kind : std::uint8_t { starts, joined, gives_up };
  std::int32_t rank = 0;
  Kind kind = Kind::starts;
  ProcessName process;
  std::array<char, 200> words{};  ///< what it does, or why it gives up
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::pair<sockaddr_un, socklen_t> address_of(const std::string& job, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "fusion-exec/" + job.substr(0, 64) + "/" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading 0: no file
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

int open_socket(const LaunchedAs& as) {
  if (as.job.empty()) return -1;
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto [address, length] = address_of(as.job, as.rank);
  if (socket >= 0 && ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0) return socket;
  if (socket >= 0) ::close(socket);
  return -1;  // as if all others were on other machines
}

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

class StartWatch::Impl {
 public:
  Impl(LaunchedAs as, StartOptions options)
      : as_(std::move(as)),
        options_(std::move(options)),
        socket_(open_socket(as_)),
        peers_(static_cast<std::size_t>(as_.num_ranks)),
        started_s_(now_s()),
        looked_s_(started_s_) {
    sign_.rank = as_.rank;
    sign_.process = this_process();
    say(Sign::Kind::starts, options_.doing);
    thread_ = std::thread([this] { run(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    over_ = true;
    thread_.join();
    say(Sign::Kind::joined, options_.doing);
    if (socket_ >= 0) ::close(socket_);
    for (const Peer& peer : peers_)
      if (peer.process >= 0) ::close(peer.process);
  }

 private:
  struct Peer {
    std::optional<double> heard_s, died_s;
    std::string words;
    int process = -1;
    Sign::Kind kind = Sign::Kind::starts;
  };

  void run() {
    while (!over_) {
      if (now_s() - spoke_s_ >= speak_s) speak();
      look();
      if (const std::string why = fault(); !why.empty() && !over_) end_process(why);
    }
  }

  void say(Sign::Kind kind, const std::string& words) {
    sign_.kind = kind;
    sign_.words = {};
    words.copy(sign_.words.data(), sign_.words.size() - 1);
    speak();
  }

  /// A rank that does not listen yet, or any more, is no fault.
  void speak() {
    spoke_s_ = now_s();
    for (int rank = 0; rank < as_.num_ranks && socket_ >= 0; ++rank) {
      if (rank == as_.rank) continue;
      const auto [address, length] = address_of(as_.job, rank);
      ::sendto(socket_, &sign_, sizeof sign_, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address), length);
    }
  }

  void look() {
    std::vector<pollfd> polled = {{signal_.event(), POLLIN, 0}, {socket_, POLLIN, 0}};
    std::vector<Peer*> watched;
    for (Peer& peer : peers_) {
      if (peer.process < 0 || peer.died_s) continue;
      polled.push_back({peer.process, POLLIN, 0});
      watched.push_back(&peer);
    }
    if (::poll(polled.data(), polled.size(), poll_ms) <= 0) return;
    if (polled[0].revents != 0) {
      signal_.take();
      told_s_ = now_s();
    }
    if (polled[1].revents != 0) hear();
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (polled[i + 2].revents != 0) watched[i]->died_s = now_s();
  }

  void hear() {
    Sign sign;
    while (::recv(socket_, &sign, sizeof sign, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof sign)) {
      if (sign.rank < 0 || sign.rank >= as_.num_ranks || sign.rank == as_.rank) continue;
      Peer& peer = peers_[static_cast<std::size_t>(sign.rank)];
      if (!peer.heard_s) peer.process = open_process(sign.process);
      peer.heard_s = now_s();
      peer.kind = sign.kind;
      sign.words.back() = 0;
      peer.words = sign.words.data();
    }
  }

  /// Why the start can't go on; "" while it can.
  std::string fault() {
    forgive_own_stop();
    for (int rank = 0; rank < as_.num_ranks; ++rank) {
      const Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (peer.kind == Sign::Kind::joined) continue;
      if (peer.kind == Sign::Kind::gives_up) return rank_name(rank) + " has given up: " + peer.words;
      if (peer.died_s && now_s() - *peer.died_s > settle_s) return rank_name(rank) + " died, " + peer.words;
      if (peer.heard_s && now_s() - *peer.heard_s > options_.silence.value)
        return rank_name(rank) + ", " + peer.words + ", has not been heard of for " + format(options_.silence) +
               ", the deadline";
    }
    if (told_s_ && now_s() - *told_s_ > answer_s) {
      const std::string missing = unheard_since(*told_s_);
      if (!missing.empty()) return "the launcher ends the job, and no answer comes from " + missing;
      if (!EndSignal::is_handled()) return "told to end (SIGTERM)";
      told_s_.reset();
    }
    if (now_s() - started_s_ <= options_.limit.value) return {};
    const std::string missing = unheard_since(started_s_);
    return "for " + format(options_.limit) + ", the deadline of a start" +
           (missing.empty() ? "; all of them start, but MPI does not connect them"
                            : "; nothing has been heard of " + missing +
                                  (socket_ < 0 ? "" : " (on another machine, or not started)"));
  }

  /// While this process was stopped, it heard nobody.
  void forgive_own_stop() {
    const double gap_s = now_s() - looked_s_;
    looked_s_ = now_s();
    if (gap_s < options_.silence.value / 2) return;
    started_s_ += gap_s;
    for (Peer& peer : peers_)
      if (peer.heard_s) *peer.heard_s += gap_s;
  }

  std::string unheard_since(double time_s) const {
    std::string missing;
    for (int rank = 0; rank < as_.num_ranks; ++rank) {
      const Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (rank == as_.rank || peer.kind == Sign::Kind::joined || (peer.heard_s && *peer.heard_s > time_s)) continue;
      missing += (missing.empty() ? "" : ", ") + rank_name(rank);
    }
    return missing;
  }

  [[noreturn]] void end_process(const std::string& why) {
    say(Sign::Kind::gives_up, why);
    const std::string line = rank_name(as_.rank) + ", " + options_.doing + ": " + why + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(static_cast<int>(ExitCode::peer_lost));
  }

  const LaunchedAs as_;
  const StartOptions options_;
  EndSignal signal_;
  const int socket_;
  std::vector<Peer> peers_;  ///< by rank
  Sign sign_;
  double started_s_, looked_s_, spoke_s_ = 0;
  std::optional<double> told_s_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

StartWatch::StartWatch(const LaunchedAs& as, const StartOptions& options)
    : impl_(std::make_unique<Impl>(as, options)) {}
StartWatch::~StartWatch() = default;

LaunchedAs launched_as() {
  const auto first_of = [](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const char* value = std::getenv(name)) return std::string(value);
    return std::string();
  };
  const std::string rank = first_of({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"});
  const std::string size = first_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  if (rank.empty() || size.empty()) return {};
  return {std::atoi(rank.c_str()), std::atoi(size.c_str()), first_of({"PMIX_NAMESPACE"})};
}

}  // namespace fusion::exec
