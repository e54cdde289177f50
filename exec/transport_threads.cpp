#include "exec/transport_threads.h"

#include <atomic>

#include "exec/transport_link.h"
#include "exec/transport_mailbox.h"

namespace fusion::exec {
namespace {

/// What the ranks share. Mailboxes lock themselves; every other member is written before the threads start.
struct World {
  explicit World(int num_ranks) : clock(std::chrono::steady_clock::now()) {
    for (int rank = 0; rank < num_ranks; ++rank) mailboxes.push_back(std::make_unique<Mailbox>(rank, clock));
  }
  int num_ranks() const { return static_cast<int>(mailboxes.size()); }
  Mailbox& of(int rank) { return *mailboxes[static_cast<std::size_t>(rank)]; }
  template <class Verb>
  void tell_others(int rank, Verb verb) {
    for (int other = 0; other < num_ranks(); ++other)
      if (other != rank) verb(of(other));
  }

  RunClock clock;
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<World> world, int rank, const LinkShapes& shapes)
      : world_(std::move(world)), rank_(rank), links_(links_from(rank, world_->num_ranks(), shapes)) {}
  ThreadTransport(const ThreadTransport&) = delete;
  ThreadTransport& operator=(const ThreadTransport&) = delete;
  ~ThreadTransport() override {
    if (gone_) return;
    // A rank that ends because of another passes on why: the others may hear of its end first.
    const auto failure = mine().failure();
    world_->tell_others(rank_, [&](Mailbox& other) { failure ? other.fail(*failure) : other.peer_ended(rank_); });
  }

  int rank() const override { return rank_; }
  int num_ranks() const override { return world_->num_ranks(); }

  void send(int peer, const MessageTag& tag, std::vector<std::byte> message) override {
    check_peer(peer);
    const Bytes bytes(static_cast<std::int64_t>(message.size()));
    const Passage passage = links_[static_cast<std::size_t>(peer)].pass(now(), bytes);
    last_arrival_ = std::max(last_arrival_, passage.arrived);
    world_->of(peer).deliver(std::move(message), {rank_, peer, tag, bytes, passage.start, passage.arrived});
  }

  std::vector<std::byte> receive(int peer, const MessageTag& tag, const std::string& waiting_for) override {
    check_peer(peer);
    return mine().receive(peer, tag, waiting_for);
  }

  void flush() override {
    check_here();
    mine().wait_for([&] { return now() >= last_arrival_; }, last_arrival_,
                    "rank " + std::to_string(rank_) + ", waiting until all that it sent has arrived");
  }

  void set_deadline(Seconds deadline) override { mine().set_deadline(deadline); }

  void shape(const LinkShapes& shapes) override { links_ = links_from(rank_, num_ranks(), shapes); }
  void begin_work(const std::string& what, std::optional<Seconds> limit) override { mine().begin_work(what, limit); }
  void end_work() override { mine().end_work(); }

  bool abort(ExitCode code, const std::string& reason) override {
    if (mine().failure()) return mine().failure()->heard;
    leave([&](Mailbox& other) { other.fail({code, "rank " + std::to_string(rank_) + ": " + reason, true}); });
    return false;
  }

  std::vector<Transfer> take_transfers() override { return mine().take_transfers(); }
  Seconds now() const override { return world_->clock.now(); }

  template <class Verb>
  void leave(Verb verb) {
    if (!gone_.exchange(true)) world_->tell_others(rank_, verb);
    mine().fail({ExitCode::runtime_fault, "rank " + std::to_string(rank_) + " has left the run"});
  }

 private:
  Mailbox& mine() { return world_->of(rank_); }
  void check_here() const {
    if (gone_) throw RuntimeFault("rank " + std::to_string(rank_) + " has left the run");
  }
  void check_peer(int peer) const {
    check(peer >= 0 && peer < num_ranks() && peer != rank_, "a message goes to another rank");
    check_here();
  }

  std::shared_ptr<World> world_;
  const int rank_;
  std::vector<ShapedLink> links_;
  Seconds last_arrival_{};
  std::atomic<bool> gone_ = false;  ///< aborted, killed or frozen
};

ThreadTransport& as_thread(Transport& transport) {
  auto* here = dynamic_cast<ThreadTransport*>(&transport);
  check(here != nullptr, "only ranks that are threads can be killed or frozen from inside");
  return *here;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int num_ranks, const LinkShapes& shapes) {
  check(num_ranks >= 1, "a run has a rank");
  const auto world = std::make_shared<World>(num_ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < num_ranks; ++rank)
    transports.push_back(std::make_unique<ThreadTransport>(world, rank, shapes));
  return transports;
}

void kill_rank(Transport& transport) {
  const std::string reason = "rank " + std::to_string(transport.rank()) + " died";
  as_thread(transport).leave([&](Mailbox& other) { other.fail({ExitCode::peer_lost, reason}); });
}

void freeze_rank(Transport& transport) {
  const int rank = transport.rank();
  as_thread(transport).leave([&](Mailbox& other) { other.peer_silent(rank); });
}

}  // namespace fusion::exec
