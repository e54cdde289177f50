#include "exec/transport_frame.h"

#include <bit>
#include <cstring>
#include <limits>

namespace fusion::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");
constexpr std::uint32_t magic = 0x4c4c4d46;  // "FMLL"
constexpr auto last_kind = static_cast<std::uint32_t>(Frame::Kind::failure);

/// Writes or reads fields one after the other.
class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}
  template <class T>
  void put(T value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  template <class T>
  T get() {
    T value{};
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  std::byte* at_;
};

}  // namespace

std::vector<std::byte> encode(const Frame& frame, std::span<const std::byte> payload) {
  const std::size_t carried = payload.size() <= Frame::inline_bytes ? payload.size() : 0;
  std::vector<std::byte> wire(Frame::header_bytes + carried);
  Cursor header(wire.data());
  header.put(magic);
  header.put(static_cast<std::uint32_t>(frame.kind));
  header.put(frame.tag.channel);
  header.put(frame.tag.micro_batch);
  header.put(frame.tag.step);
  header.put(frame.bytes);
  header.put(frame.number);
  header.put(frame.start.value);
  header.put(static_cast<std::int32_t>(frame.code));
  if (carried > 0) std::memcpy(wire.data() + Frame::header_bytes, payload.data(), carried);
  return wire;
}

Frame decode(std::span<const std::byte> wire) {
  std::array<std::byte, Frame::header_bytes> copy{};
  if (wire.size() < copy.size()) throw RuntimeFault("a frame of " + std::to_string(wire.size()) + " bytes arrived");
  std::memcpy(copy.data(), wire.data(), copy.size());
  Cursor header(copy.data());
  const auto its_magic = header.get<std::uint32_t>(), kind = header.get<std::uint32_t>();
  if (its_magic != magic || kind > last_kind) throw RuntimeFault("a frame arrived that is not ours");
  Frame frame;
  frame.kind = static_cast<Frame::Kind>(kind);
  frame.tag.channel = header.get<std::uint32_t>();
  frame.tag.micro_batch = header.get<std::uint32_t>();
  frame.tag.step = header.get<std::int64_t>();
  frame.bytes = header.get<std::uint64_t>();
  frame.number = header.get<std::uint64_t>();
  frame.start = Seconds(header.get<double>());
  frame.code = static_cast<ExitCode>(header.get<std::int32_t>());
  const std::uint64_t carried = frame.bytes <= Frame::inline_bytes ? frame.bytes : 0;
  if (wire.size() != Frame::header_bytes + carried)
    throw RuntimeFault("a frame for " + std::to_string(frame.bytes) + " bytes carries " +
                       std::to_string(wire.size() - Frame::header_bytes));
  return frame;
}

ChunkPlan plan_chunks(Bytes message, Bytes chunk) {
  check(message.value > 0, "a message in chunks has bytes");
  check(chunk.value > 0 && chunk.value <= std::numeric_limits<int>::max(), "a chunk's size fits an int");
  const std::int64_t num = (message.value - 1) / chunk.value + 1;
  return {num, chunk.value, message.value - (num - 1) * chunk.value};
}

}  // namespace fusion::exec
