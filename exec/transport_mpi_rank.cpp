// What a rank's own thread sees of the MPI transport.
#include <algorithm>
#include <cstdlib>

#include "exec/transport_mpi.h"
#include "exec/transport_mpi_thread.h"

namespace fusion::exec {
namespace {

constexpr std::chrono::milliseconds told_wait(1200);  ///< until the others have heard of an abort
constexpr std::chrono::milliseconds last_wait(500);   ///< until they have heard of a failure

/// While it lives, the transport's thread looks often.
class Waiting {
 public:
  explicit Waiting(Handover& handover) : handover_(handover) {
    const std::lock_guard lock(handover_.mutex);
    if (handover_.num_waiting++ == 0) handover_.changed.notify_one();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { --handover_.num_waiting; }

 private:
  Handover& handover_;
};

/// Whether a rank before `end` fails for that reason, as it has told: "rank 2: REASON", cut to what a frame holds.
bool is_of(const std::string& told, const std::string& reason, int end) {
  for (int rank = 0; rank < end; ++rank) {
    const std::string whole = "rank " + std::to_string(rank) + ": " + reason;
    if (told == whole.substr(0, Frame::inline_bytes)) return true;
  }
  return false;
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const MpiOptions& options) {
    std::optional<StartWatch> watch(std::in_place, launched_as(), options.start);
    std::promise<Joined> joining;
    auto joined = joining.get_future();
    std::packaged_task<void(std::promise<Joined>)> work(run_mpi_thread);
    ended_ = work.get_future();
    thread_ = std::thread(std::move(work), std::move(joining));
    try {
      joined_ = joined.get();
    } catch (...) {
      thread_.join();
      throw;
    }
    watch.reset();
    set_deadline(options.start.silence);
    if (!options.watch_processes) joined_.processes.clear();
    guard_ = start_guard(joined_.state, joined_.processes);
    sent_.resize(static_cast<std::size_t>(num_ranks()));
    try {
      shape(options.shapes);
    } catch (...) {
      leave();
      throw;
    }
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  ~MpiTransport() override { leave(); }

  int rank() const override { return joined_.state->rank; }
  int num_ranks() const override { return joined_.state->num_ranks; }

  void send(int peer, const MessageTag& tag, std::vector<std::byte> message) override {
    check_peer(peer);
    auto& link = links_[static_cast<std::size_t>(peer)];
    Frame frame;
    frame.tag = tag;
    frame.number = ++sent_[static_cast<std::size_t>(peer)];
    const Passage passage = link.pass(now(), Bytes(static_cast<std::int64_t>(message.size())));
    submit({peer, frame, std::move(message), passage, link.shaped()});
  }

  std::vector<std::byte> receive(int peer, const MessageTag& tag, const std::string& waiting_for) override {
    check_peer(peer);
    const Waiting waiting(*joined_.handover);
    return mailbox().receive(peer, tag, waiting_for);
  }

  void flush() override {
    for (int peer = 0; peer < num_ranks(); ++peer)
      if (!has_all(peer)) submit_mark(peer, Frame::Kind::flush);
    const auto all_have_all = [&] {
      for (int peer = 0; peer < num_ranks(); ++peer)
        if (!has_all(peer)) return false;
      return true;
    };
    const Waiting waiting(*joined_.handover);
    mailbox().wait_for(all_have_all, {}, "rank " + std::to_string(rank()) + ", waiting until all it sent has arrived");
  }

  void set_deadline(Seconds deadline) override { joined_.state->deadline_s = deadline.value; }

  void shape(const LinkShapes& shapes) override {
    if (!shapes.empty() && shapes.size() != sent_.size())
      throw InputError(
          "", "ranks",
          std::to_string(num_ranks()) + " were started; the links are those of " + std::to_string(shapes.size()));
    links_ = links_from(rank(), num_ranks(), shapes);
  }

  void begin_work(const std::string& what, std::optional<Seconds> limit) override { mailbox().begin_work(what, limit); }
  void end_work() override { mailbox().end_work(); }

  bool abort(ExitCode code, const std::string& reason) override {
    mailbox().set_thrown();
    if (const auto failure = mailbox().failure())
      return failure->heard && (failure->reason == reason || is_of(failure->reason, reason, num_ranks()));
    joined_.handover->aborting = true;
    mailbox().fail({code, "rank " + std::to_string(rank()) + ": " + reason});
    ended_.wait_for(told_wait);
    return std::ranges::any_of(mailbox().heard(),
                               [&](const std::string& heard) { return is_of(heard, reason, rank()); });
  }

  std::vector<Transfer> take_transfers() override { return mailbox().take_transfers(); }
  Seconds now() const override { return joined_.state->mailbox.clock().now(); }

 private:
  Mailbox& mailbox() { return joined_.state->mailbox; }
  void check_peer(int peer) const {
    check(peer >= 0 && peer < num_ranks() && peer != rank(), "a message goes to another rank");
  }
  bool has_all(int peer) const {
    const auto place = static_cast<std::size_t>(peer);
    return joined_.handover->flushed[place] >= sent_[place];
  }

  void submit(Submission one) {
    const std::lock_guard lock(joined_.handover->mutex);
    joined_.handover->submissions.push_back(std::move(one));
    joined_.handover->changed.notify_one();
  }

  /// What stands behind all messages so far.
  void submit_mark(int peer, Frame::Kind kind) {
    Frame frame;
    frame.kind = kind;
    frame.number = sent_[static_cast<std::size_t>(peer)];
    submit({peer, frame, {}, {}, false});
  }

  void leave() {
    if (!mailbox().failure())  // else this is no end in order
      for (int peer = 0; peer < num_ranks(); ++peer)
        if (peer != rank()) submit_mark(peer, Frame::Kind::goodbye);
    joined_.handover->leaving = true;
    while (ended_.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready && !mailbox().failure()) {
    }
    if (joined_.state->finished) {
      thread_.join();
      guard_.join();
      return;
    }
    ended_.wait_for(last_wait);  // after a failure it may hang inside MPI: the guard ends the process if need be
    thread_.detach();
    guard_.detach();
  }

  Joined joined_;
  std::vector<ShapedLink> links_;
  std::vector<std::uint64_t> sent_;  ///< messages, by peer
  std::thread thread_, guard_;
  std::future<void> ended_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  if (const std::string why = mpi_missing(); !why.empty()) throw InputError("", "mpi", why);
  return std::make_unique<MpiTransport>(options);
}

bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

}  // namespace fusion::exec
