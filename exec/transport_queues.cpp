#include "exec/transport_queues.h"

#include <algorithm>

namespace fusion::exec {

void Outbox::push(const Frame& frame, std::vector<std::byte> message, const Passage& passage, bool shaped) {
  Outgoing out;
  out.frame = frame;
  out.frame.bytes = message.size();
  out.passage = passage;
  out.shaped = shaped;
  if (message.size() > Frame::inline_bytes) out.plan = plan_chunks(Bytes(static_cast<std::int64_t>(message.size())));
  out.message = std::make_shared<const std::vector<std::byte>>(std::move(message));
  waiting_.push_back(std::move(out));
}

/// A frame that only announces chunks goes ahead of them, so that the receiver is prepared.
Seconds Outbox::due(const Outgoing& out) {
  if (!out.shaped) return {};
  if (out.plan.num_chunks == 0) return out.passage.arrived;
  if (!out.announced) return out.passage.start;
  const double through =
      static_cast<double>(out.plan.offset(out.next) + out.plan.size(out.next)) / static_cast<double>(out.frame.bytes);
  return out.passage.arrived - (out.passage.released - out.passage.start) * (1 - through);
}

std::optional<Seconds> Outbox::due() const {
  if (waiting_.empty()) return {};
  return due(waiting_.front());
}

std::optional<std::vector<std::byte>> Outbox::next_frame(Seconds now) {
  if (waiting_.empty() || waiting_.front().announced || due(waiting_.front()) > now) return {};
  Outgoing& out = waiting_.front();
  out.frame.start = out.shaped ? out.passage.start : now;
  auto wire = encode(out.frame, *out.message);
  out.announced = true;
  if (out.plan.num_chunks == 0) waiting_.pop_front();
  return wire;
}

std::optional<Outbox::Chunk> Outbox::next_chunk(Seconds now) {
  if (waiting_.empty() || !waiting_.front().announced || due(waiting_.front()) > now) return {};
  Outgoing& out = waiting_.front();
  Chunk chunk{out.message, out.plan.offset(out.next), out.plan.size(out.next)};
  if (++out.next == out.plan.num_chunks) waiting_.pop_front();
  return chunk;
}

void Inbox::announce(const Frame& frame, std::span<const std::byte> payload) {
  const std::uint64_t expected = last_number_ + (frame.kind == Frame::Kind::message ? 1 : 0);
  if (frame.number != expected)
    throw RuntimeFault("message " + std::to_string(frame.number) + " arrived where " + std::to_string(expected) +
                       " was due");
  last_number_ = expected;
  Incoming in;
  in.arrived.frame = frame;
  if (frame.bytes > Frame::inline_bytes) {
    in.plan = plan_chunks(Bytes(static_cast<std::int64_t>(frame.bytes)));
    in.arrived.message.reserve(frame.bytes);  // touched chunk by chunk: gigabytes at once would take seconds
  } else {
    in.arrived.message.assign(payload.begin(), payload.end());
  }
  incoming_.push_back(std::move(in));
}

std::optional<Inbox::Place> Inbox::next_place() {
  const auto open = std::ranges::find_if(incoming_, [](const Incoming& in) { return in.placed < in.plan.num_chunks; });
  if (open == incoming_.end()) return {};
  const std::int64_t chunk = open->placed++;
  auto& message = open->arrived.message;
  message.resize(message.size() + static_cast<std::size_t>(open->plan.size(chunk)));  // within what is reserved
  return Place{message.data() + open->plan.offset(chunk), open->plan.size(chunk), open->arrived.frame.number};
}

void Inbox::filled(std::uint64_t number) {
  const auto in = std::ranges::find_if(incoming_, [&](const Incoming& one) {
    return one.arrived.frame.kind == Frame::Kind::message && one.arrived.frame.number == number;
  });
  check(in != incoming_.end(), "a chunk belongs to a message that is not whole yet");
  ++in->filled;
}

std::optional<Inbox::Arrived> Inbox::take() {
  if (incoming_.empty() || incoming_.front().filled < incoming_.front().plan.num_chunks) return {};
  Arrived arrived = std::move(incoming_.front().arrived);
  incoming_.pop_front();
  return arrived;
}

}  // namespace fusion::exec
