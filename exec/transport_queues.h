// The messages of one ordered pair on their way: what may leave when, and what has arrived whole. No MPI here, and no
// clock: the time is an argument.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "exec/transport_frame.h"
#include "exec/transport_link.h"

namespace fusion::exec {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// Sends messages one at a time, in order. On a shaped link a chunk leaves when the link would have delivered it, so
/// that what follows behind it takes no time of its own.
class Outbox {
 public:
  struct Chunk {
    SharedBytes message;
    std::int64_t offset = 0, bytes = 0;
  };

  /// `shaped`: the frame's start is that of its passage; else it is when the frame leaves.
  void push(const Frame&, std::vector<std::byte> message, const Passage&, bool shaped);

  /// The next frame, or chunk, if it may leave now. Call both until neither has any.
  std::optional<std::vector<std::byte>> next_frame(Seconds now);
  std::optional<Chunk> next_chunk(Seconds now);
  /// When there may be more; nothing while empty.
  std::optional<Seconds> due() const;
  bool empty() const { return waiting_.empty(); }

 private:
  struct Outgoing {
    Frame frame;
    SharedBytes message;
    Passage passage;
    bool shaped = false, announced = false;
    ChunkPlan plan;  ///< no chunks: the message travels in its frame
    std::int64_t next = 0;
  };
  static Seconds due(const Outgoing&);
  std::deque<Outgoing> waiting_;
};

/// Puts messages together and hands them on in order.
class Inbox {
 public:
  struct Arrived {
    Frame frame;
    std::vector<std::byte> message;
  };
  /// Where the bytes of a chunk go: valid until that chunk has been filled.
  struct Place {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::uint64_t number = 0;  ///< of its message
  };

  /// A frame of the ordered kinds. Throws RuntimeFault where its number is not the one that follows.
  void announce(const Frame&, std::span<const std::byte> payload);
  /// The next chunk to receive, in the order the sender sends them.
  std::optional<Place> next_place();
  void filled(std::uint64_t number);
  /// The next one that is whole, and before which nothing is missing.
  std::optional<Arrived> take();
  bool empty() const { return incoming_.empty(); }

 private:
  struct Incoming {
    Arrived arrived;
    ChunkPlan plan;
    std::int64_t placed = 0, filled = 0;
  };
  std::deque<Incoming> incoming_;
  std::uint64_t last_number_ = 0;  ///< of the messages announced
};

}  // namespace fusion::exec
