// Messages between ranks. Two implementations: MPI (one thread owns every MPI call) and in process (threads, for
// tests).
//
// Contract, the same as the simulator's (core/program/program.h): a send never blocks the caller; the messages of one
// channel (sender, receiver) arrive in the order in which they were sent; each has a tag that the receiver checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/platform/platform.h"

namespace fusion::exec {

/// What a message is: checked at the other end, so that a mix-up is an error and never a wrong number.
struct MessageTag {
  std::uint32_t task = 0;  ///< TaskId of the send
  std::uint32_t micro_batch = 0;
  std::uint64_t step = 0;
  bool operator==(const MessageTag&) const = default;
};

struct Message {
  MessageTag tag;
  std::vector<std::byte> bytes;
};

/// How a channel is slowed down on a fast machine, the simulator's way: release = max(now, last) + bytes / rate,
/// delivered after the latency. Not shaped: as fast as it goes.
struct ChannelShape {
  BytesPerSecond bandwidth{};
  Seconds latency{};
};

/// When a message was on its way, on this rank's steady clock.
struct Transfer {
  int peer = 0;
  MessageTag tag;
  std::size_t bytes = 0;
  Seconds start{}, end{};
};

/// A peer that died, froze or never came. Ends a rank with exit code 6.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;

  /// Queues a message and returns at once.
  virtual void send(int peer, Message) = 0;

  /// Waits for the next message of a channel. Throws PeerLost naming rank, peer and `waiting_for` when the peer is gone
  /// or nothing was heard from it within the deadline.
  virtual Message receive(int peer, const std::string& waiting_for) = 0;

  /// Waits until everything sent has arrived.
  virtual void flush() = 0;

  /// The longest that a peer may be silent. Heartbeats keep a busy peer heard.
  virtual void set_deadline(Seconds) = 0;

  /// Transfers sent from here and finished since the last call.
  virtual std::vector<Transfer> take_transfers() = 0;
};

/// One shape per ordered pair [from * n + to]; empty: not shaped.
using Shaping = std::vector<std::optional<ChannelShape>>;
/// What a platform says of the pairs of these devices. Sharing of links is not emulated: every pair gets its route
/// alone.
Shaping shaping_of(const Platform&, std::span<const DeviceId> device_of_rank);

/// One transport per rank, joined in this process; each is used by one thread.
std::vector<std::unique_ptr<Transport>> make_in_process_transports(int num_ranks, Shaping = {});

/// Over MPI_COMM_WORLD, which the caller has initialised with MPI_THREAD_FUNNELED or above on the thread that calls
/// this.
std::unique_ptr<Transport> make_mpi_transport(Shaping = {});

}  // namespace fusion::exec
