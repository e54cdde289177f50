// How bytes move between ranks. Two implementations: threads of one process, and MPI.
//
//   - send returns at once; the messages of one ordered pair travel one at a time, in the order they were sent, and a
//     large one travels in chunks;
//   - what arrives is taken in whether or not anybody waits for it;
//   - a rank that dies, or is not heard of for the deadline, makes every wait of every other rank throw PeerLost; one
//     that ends in order (its transport is destroyed) fails only those who still wait for a message of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/platform/platform.h"

namespace fusion::exec {

/// Tells messages of a pair apart and lets the receiver take them in its own order. `channel` is the recv's TaskId, or
/// one of the reserved ones below.
struct MessageTag {
  std::uint32_t channel = 0;
  std::uint32_t micro_batch = 0;
  std::int64_t step = 0;
  auto operator<=>(const MessageTag&) const = default;
};
/// Channels beyond all tasks: what ranks tell each other beside the Program.
inline constexpr std::uint32_t control_channel = 0xffff'0000;

/// Exit code 6. The message names the rank, what it waited for, and the peer.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A message as it travelled, for the report. Times since the transport started.
struct Transfer {
  int from = 0, to = 0;
  MessageTag tag;
  Bytes bytes{};
  Seconds start{}, end{};  ///< first byte on the (shaped) link; last byte arrived, seen at the sender or the receiver
};

/// A link that a transport pretends to have: a message starts when the one before it has left, takes bytes / bandwidth,
/// and arrives after the latency, which occupies nothing. The simulator's channel, exactly.
struct LinkShape {
  BytesPerSecond bandwidth{};
  Seconds latency{};
  bool operator==(const LinkShape&) const = default;
};
/// [from][to], by rank; nothing: as fast as it goes.
using LinkShapes = std::vector<std::vector<std::optional<LinkShape>>>;
/// The routes between the devices of the ranks.
LinkShapes shapes_of(const Platform&, const std::vector<DeviceId>& devices);

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;

  /// Never waits.
  virtual void send(int peer, const MessageTag&, std::vector<std::byte> message) = 0;

  /// Waits for that message of that peer. `waiting_for` says what it is, for the error: "forward blocks 3-7,
  /// micro-batch 2". Throws PeerLost.
  virtual std::vector<std::byte> receive(int peer, const MessageTag&, const std::string& waiting_for) = 0;

  /// Waits until everything sent has arrived. Throws PeerLost.
  virtual void flush() = 0;

  /// How long a peer may be silent. A rank that computes is not silent: the transport's own thread speaks for it.
  virtual void set_deadline(Seconds) = 0;

  /// Pretends links from now on. Throws InputError where the shapes are not those of so many ranks.
  virtual void shape(const LinkShapes&) = 0;

  /// From now until `end_work` this rank does something and waits for nobody. `what` says it to who ends the process,
  /// if it must: "forward of blocks 3-7, micro-batch 2". Over MPI, work that takes longer than `limit` fails the run.
  virtual void begin_work(const std::string& what, std::optional<Seconds> limit) = 0;
  virtual void end_work() = 0;

  /// This rank can't go on: tells the others `code` and why. Every wait of theirs then throws what stands for that code
  /// (InputError, Infeasible, RuntimeFault), naming this rank. Returns once they have heard it, or after a second; at
  /// once where the run has failed already. Whether another rank says the same (it told this one why, or all fail alike
  /// and it is the first of them): then this one need not.
  virtual bool abort(ExitCode code, const std::string& reason) = 0;

  /// Messages that ended at this rank since the last call.
  virtual std::vector<Transfer> take_transfers() = 0;

  virtual Seconds now() const = 0;  ///< since the transport started
};

}  // namespace fusion::exec
