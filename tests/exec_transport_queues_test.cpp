#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "exec/transport_queues.h"
#include "tests/support/transport_suite.h"

namespace fusion::exec {
namespace {

TEST(PlanChunks, CutsExactly) {
  EXPECT_EQ(plan_chunks(Bytes(1), Bytes(10)), (ChunkPlan{1, 10, 1}));
  EXPECT_EQ(plan_chunks(Bytes(10), Bytes(10)), (ChunkPlan{1, 10, 10}));
  EXPECT_EQ(plan_chunks(Bytes(11), Bytes(10)), (ChunkPlan{2, 10, 1}));
}

// With chunks as long as an int can count: 2^31 - 1 is one, 2^31 is that and a byte, 2^32 + 1 is two and 3 bytes. With
// ours of 2^18: 2^31 is 2^13 of them; one byte less takes it from the last; 2^32 + 1 is 2^14 and a byte.
TEST(Golden, G18_MessagesBeyondAnInt) {
  constexpr std::int64_t most = std::numeric_limits<int>::max(), ours = 1 << 18;
  EXPECT_EQ(plan_chunks(Bytes(most), Bytes(most)), (ChunkPlan{1, most, most}));
  EXPECT_EQ(plan_chunks(Bytes(most + 1), Bytes(most)), (ChunkPlan{2, most, 1}));
  EXPECT_EQ(plan_chunks(Bytes((std::int64_t{1} << 32) + 1), Bytes(most)), (ChunkPlan{3, most, 3}));
  EXPECT_EQ(plan_chunks(Bytes(most)), (ChunkPlan{8192, ours, ours - 1}));
  EXPECT_EQ(plan_chunks(Bytes(most + 1)), (ChunkPlan{8192, ours, ours}));
  EXPECT_EQ(plan_chunks(Bytes((std::int64_t{1} << 32) + 1)), (ChunkPlan{16385, ours, 1}));
}

TEST(PlanChunks, CoversEveryByteOnce) {
  std::mt19937_64 generator(7);
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = static_cast<std::int64_t>(generator() % 5000 + 1);
    const ChunkPlan plan = plan_chunks(Bytes(bytes), Bytes(static_cast<std::int64_t>(generator() % 700 + 1)));
    std::int64_t at = 0;
    for (std::int64_t chunk = 0; chunk < plan.num_chunks; ++chunk) {
      EXPECT_EQ(plan.offset(chunk), at);
      EXPECT_GT(plan.size(chunk), 0);
      at += plan.size(chunk);
    }
    EXPECT_EQ(at, bytes);
  }
}

Frame message_frame(std::uint64_t number, std::uint64_t bytes) {
  Frame frame;
  frame.tag = {11, 22, -33};
  frame.number = number;
  frame.bytes = bytes;
  frame.start = Seconds(1.25);
  return frame;
}

TEST(Frame, ReadsBackWhatItWrites) {
  Frame frame = message_frame(5, 3);
  frame.kind = Frame::Kind::failure;
  frame.code = ExitCode::bad_input;
  const auto payload = pattern(3, 1);
  const auto wire = encode(frame, payload);
  EXPECT_EQ(wire.size(), Frame::header_bytes + 3);
  EXPECT_EQ(decode(wire), frame);
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), wire.begin() + Frame::header_bytes));
}

TEST(Frame, CarriesNoPayloadThatIsSentInChunks) {
  const auto payload = pattern(Frame::inline_bytes + 1, 1);
  EXPECT_EQ(encode(message_frame(1, payload.size()), payload).size(), Frame::header_bytes);
}

TEST(Frame, RefusesWhatIsNotOurs) {
  const auto wire = encode(message_frame(1, 10), pattern(10, 1));
  const std::span<const std::byte> whole(wire);
  EXPECT_THROW(decode(whole.first(10)), RuntimeFault);
  EXPECT_THROW(decode(whole.first(wire.size() - 1)), RuntimeFault);
  for (const std::size_t place : {std::size_t{0}, std::size_t{4}}) {  // magic, kind
    auto changed = wire;
    changed[place] = std::byte{0x7f};
    EXPECT_THROW(decode(changed), RuntimeFault);
  }
}

/// Sends random messages through an outbox into an inbox, whatever leaves at once, and compares with what went in.
TEST(Queues, HandOnEveryMessageWholeAndInOrder) {
  std::mt19937_64 generator(3);
  Outbox outbox;
  Inbox inbox;
  std::uint64_t pushed = 0, taken = 0;
  std::deque<std::pair<Inbox::Place, Outbox::Chunk>> travelling;
  for (int step = 0; step < 3000; ++step) {
    if (generator() % 8 == 0) {
      const std::size_t bytes = generator() % 2 == 0 ? generator() % 5000 : generator() % 900'000;
      ++pushed;
      outbox.push(message_frame(pushed, 0), pattern(bytes, pushed), {}, false);
    }
    if (const auto wire = outbox.next_frame(Seconds(0)))
      inbox.announce(decode(*wire), std::span(*wire).subspan(Frame::header_bytes));
    if (const auto chunk = outbox.next_chunk(Seconds(0))) {
      const auto place = inbox.next_place();
      ASSERT_TRUE(place);
      ASSERT_EQ(place->bytes, chunk->bytes);
      travelling.emplace_back(*place, *chunk);
    }
    if (!travelling.empty() && generator() % 2 == 0) {  // any of them ends first
      std::swap(travelling.front(), travelling[generator() % travelling.size()]);
      const auto& [place, chunk] = travelling.front();
      std::copy_n(chunk.message->data() + chunk.offset, chunk.bytes, place.data);
      inbox.filled(place.number);
      travelling.pop_front();
    }
    while (const auto arrived = inbox.take()) {
      ++taken;
      EXPECT_EQ(arrived->frame.number, taken);
      EXPECT_EQ(arrived->message, pattern(arrived->frame.bytes, taken));
    }
  }
  EXPECT_GT(taken, 100U);
  EXPECT_EQ(taken == pushed, outbox.empty() && inbox.empty());
}

TEST(Inbox, RefusesAMessageOutOfTurn) {
  Inbox inbox;
  inbox.announce(message_frame(1, 0), {});
  EXPECT_THROW(inbox.announce(message_frame(3, 0), {}), RuntimeFault);
  EXPECT_THROW(inbox.announce(message_frame(1, 0), {}), RuntimeFault);
}

// 1 MiB in 4 chunks on 1 MiB/s and 0.5 s, sent at t = 2: its frame goes ahead at 2, chunks are due when the link would
// have delivered them, at 2.75, 3, 3.25 and 3.5. A short message behind it leaves the link right then and arrives 0.5 s
// later than the last byte was released (3), plus its own time.
TEST(Outbox, PacesChunksAsTheLinkWould) {
  ShapedLink link(LinkShape{BytesPerSecond(1 << 20), Seconds(0.5)});
  Outbox outbox;
  outbox.push(message_frame(1, 0), pattern(1 << 20, 1), link.pass(Seconds(2), Bytes(1 << 20)), true);
  outbox.push(message_frame(2, 0), pattern(1 << 10, 2), link.pass(Seconds(2), Bytes(1 << 10)), true);
  EXPECT_EQ(outbox.due(), Seconds(2));
  EXPECT_FALSE(outbox.next_frame(Seconds(1.99)));
  ASSERT_TRUE(outbox.next_frame(Seconds(2)));
  for (const double due_s : {2.75, 3.0, 3.25, 3.5}) {
    EXPECT_EQ(outbox.due(), Seconds(due_s));
    EXPECT_FALSE(outbox.next_frame(Seconds(due_s)));
    EXPECT_FALSE(outbox.next_chunk(Seconds(due_s - 1e-9)));
    EXPECT_TRUE(outbox.next_chunk(Seconds(due_s)));
  }
  EXPECT_DOUBLE_EQ(outbox.due()->value, 3.5 + 1.0 / 1024);
  EXPECT_TRUE(outbox.next_frame(Seconds(3.6)));
  EXPECT_TRUE(outbox.empty());
}

}  // namespace
}  // namespace fusion::exec
