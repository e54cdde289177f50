// What ranks write on the wire: small frames, and the chunks of messages too large for one.
//
//   frame   64 bytes, little-endian, pinned for all versions (the handshake is what finds versions out):
//           magic u32 | kind u32 | channel u32 | micro-batch u32 | step i64 | bytes u64 | number u64 | start f64 |
//           code i32 | 12 bytes of zeros
//           then the payload, where it is `inline_bytes` at most: a short message, or the reason of a failure
//   chunk   raw bytes; the frame before says how many in all
//
// Frames and chunks of an ordered pair arrive in the order they were sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/transport.h"

namespace fusion::exec {

struct Frame {
  /// In order of the pair: message, flush, goodbye. Beside it: heartbeat, flushed, failure.
  enum class Kind : std::uint32_t { message, flush, goodbye, heartbeat, flushed, failure };
  static constexpr std::size_t header_bytes = 64, inline_bytes = 4032;

  Kind kind = Kind::message;
  MessageTag tag;
  std::uint64_t bytes = 0;   ///< of the message, or of the reason
  std::uint64_t number = 0;  ///< of the message among those of its pair, from 1; flush, flushed: messages before it
  Seconds start{};           ///< when the message's first byte left
  ExitCode code = ExitCode::done;
  bool operator==(const Frame&) const = default;
};

/// Header and, where it fits, payload.
std::vector<std::byte> encode(const Frame&, std::span<const std::byte> payload = {});
/// `wire` is a whole frame as it arrived. Throws RuntimeFault for one that no rank of ours sends.
Frame decode(std::span<const std::byte> wire);

/// How a message of so many bytes is cut: all chunks are `chunk_bytes` long but for the last.
struct ChunkPlan {
  std::int64_t num_chunks = 0, chunk_bytes = 0, last_bytes = 0;
  std::int64_t offset(std::int64_t chunk) const { return chunk * chunk_bytes; }
  std::int64_t size(std::int64_t chunk) const { return chunk + 1 == num_chunks ? last_bytes : chunk_bytes; }
  bool operator==(const ChunkPlan&) const = default;
};
/// Long enough for full speed, short enough that a heartbeat behind a few of them is on time at 8 Mbps.
inline constexpr Bytes default_chunk{256 << 10};
/// Preconditions: at least one byte; the chunk counts fit an int, as MPI wants them.
ChunkPlan plan_chunks(Bytes message, Bytes chunk = default_chunk);

}  // namespace fusion::exec
