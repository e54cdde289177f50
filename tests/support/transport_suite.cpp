#include "tests/support/transport_suite.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace fusion::exec {
namespace {

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

int next(const Transport& t) { return (t.rank() + 1) % t.num_ranks(); }
int previous(const Transport& t) { return (t.rank() + t.num_ranks() - 1) % t.num_ranks(); }
MessageTag tag_of(std::size_t i, std::int64_t step = 7) {
  return {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i % 3), step};
}

/// Nobody goes on before all have come here.
void meet(Transport& t) {
  for (int peer = 0; peer < t.num_ranks(); ++peer)
    if (peer != t.rank()) t.send(peer, {control_channel, 0, 0}, {});
  for (int peer = 0; peer < t.num_ranks(); ++peer)
    if (peer != t.rank()) t.receive(peer, {control_channel, 0, 0}, "all to meet");
}

/// Those of one case; what others of the suite left is dropped.
std::vector<Transfer> transfers_of(Transport& t, std::int64_t step) {
  auto transfers = t.take_transfers();
  std::erase_if(transfers, [&](const Transfer& one) { return one.tag.step != step || one.to != t.rank(); });
  std::ranges::sort(transfers, {}, &Transfer::tag);
  return transfers;
}

void expect_message(Transport& t, int from, const MessageTag& tag, std::size_t bytes, std::uint64_t seed) {
  const auto message = t.receive(from, tag, "message " + std::to_string(seed));
  expect(message.size() == bytes, "rank " + std::to_string(t.rank()) + " got " + std::to_string(message.size()) +
                                      " bytes of message " + std::to_string(seed) + ", not " + std::to_string(bytes));
  expect(message == pattern(bytes, seed), "message " + std::to_string(seed) + " arrived changed");
}

void messages_of_one_tag_keep_their_order(Transport& t) {
  constexpr std::size_t num = 200;
  for (std::size_t i = 0; i < num; ++i) t.send(next(t), {1, 0, 0}, pattern(i % 7 == 0 ? 9000 : i, i));
  for (std::size_t i = 0; i < num; ++i) expect_message(t, previous(t), {1, 0, 0}, i % 7 == 0 ? 9000 : i, i);
}

void the_receiver_chooses_by_tag(Transport& t) {
  constexpr std::size_t num = 50;
  for (std::size_t i = 0; i < num; ++i) t.send(next(t), tag_of(i), pattern(i * 100, i));
  for (std::size_t i = num; i-- > 0;) expect_message(t, previous(t), tag_of(i), i * 100, i);
}

/// Sizes around every border of a protocol: empty, a frame, a chunk, several.
void every_size_arrives_whole(Transport& t) {
  std::vector<std::size_t> sizes = {0, 1, 2, 5'000'003};
  for (std::size_t border = 32; border <= (1 << 21); border *= 2)
    for (const std::size_t near : {border - 1, border, border + 1}) sizes.push_back(near);
  for (std::size_t border = 3968; border <= 4160; border += 1) sizes.push_back(border);
  for (std::size_t i = 0; i < sizes.size(); ++i) t.send(next(t), tag_of(i), pattern(sizes[i], i));
  for (std::size_t i = 0; i < sizes.size(); ++i) expect_message(t, previous(t), tag_of(i), sizes[i], i);
}

void many_small_messages(Transport& t) {
  constexpr std::size_t num = 5000;
  for (std::size_t i = 0; i < num; ++i) t.send(next(t), tag_of(i), pattern(16, i));
  for (std::size_t i = 0; i < num; ++i) expect_message(t, previous(t), tag_of(i), 16, i);
}

/// More than any buffer below holds, before anybody receives.
void send_never_waits(Transport& t) {
  constexpr std::size_t bytes = 24 << 20;
  for (int peer = 0; peer < t.num_ranks(); ++peer)
    if (peer != t.rank()) t.send(peer, {2, 0, 0}, pattern(bytes, static_cast<std::uint64_t>(t.rank())));
  for (int peer = 0; peer < t.num_ranks(); ++peer)
    if (peer != t.rank()) expect_message(t, peer, {2, 0, 0}, bytes, static_cast<std::uint64_t>(peer));
}

/// Random traffic between all pairs, known to all ranks: each sends its own in order and receives in another order.
void random_traffic_of_all_pairs(Transport& t) {
  struct Planned {
    int from, to;
    std::size_t bytes;
  };
  std::mt19937_64 generator(20261130);
  std::vector<Planned> traffic;
  for (int i = 0; i < 400; ++i) {
    const int from = static_cast<int>(generator() % static_cast<unsigned>(t.num_ranks()));
    const int to = static_cast<int>(generator() % static_cast<unsigned>(t.num_ranks()));
    traffic.push_back({from, to, generator() % 3 == 0 ? generator() % 1'500'000 : generator() % 200});
  }
  std::vector<std::size_t> to_receive;
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    const auto& [from, to, bytes] = traffic[i];
    if (from == to) continue;
    if (from == t.rank()) t.send(to, tag_of(i), pattern(bytes, i));
    if (to == t.rank()) to_receive.push_back(i);
  }
  std::shuffle(to_receive.begin(), to_receive.end(), generator);
  for (const std::size_t i : to_receive) expect_message(t, traffic[i].from, tag_of(i), traffic[i].bytes, i);
}

/// flush returns no earlier than the messages arrive, by the receiver's own record.
void flush_waits_for_the_arrival(Transport& t) {
  constexpr double clocks_differ_s = 0.01;
  constexpr std::int64_t step = 8;
  for (std::size_t i = 0; i < 5; ++i) t.send(next(t), tag_of(i, step), pattern(3'000'000, i));
  t.flush();
  const double flushed_s = t.now().value;
  std::vector<std::byte> told(sizeof flushed_s);
  std::memcpy(told.data(), &flushed_s, sizeof flushed_s);
  t.send(next(t), {9, 0, 0}, told);
  told = t.receive(previous(t), {9, 0, 0}, "the time of the flush");
  double others_s = 0;
  std::memcpy(&others_s, told.data(), sizeof others_s);
  for (std::size_t i = 0; i < 5; ++i) expect_message(t, previous(t), tag_of(i, step), 3'000'000, i);
  for (const Transfer& transfer : transfers_of(t, step))
    expect(transfer.end.value <= others_s + clocks_differ_s, "flush returned before a message had arrived");
  meet(t);
}

void transfers_record_what_arrived(Transport& t) {
  constexpr std::size_t num = 20;
  constexpr std::int64_t step = 9;
  for (std::size_t i = 0; i < num; ++i) t.send(next(t), tag_of(i, step), pattern(i * 1000, i));
  for (std::size_t i = 0; i < num; ++i) expect_message(t, previous(t), tag_of(i, step), i * 1000, i);
  const auto transfers = transfers_of(t, step);
  expect(transfers.size() == num, std::to_string(transfers.size()) + " transfers are recorded, not 20");
  for (std::size_t i = 0; i < num; ++i) {
    const Transfer& transfer = transfers[i];
    expect(transfer.from == previous(t) && transfer.tag == tag_of(i, step), "a transfer names its message");
    expect(transfer.bytes.value == static_cast<std::int64_t>(i * 1000), "a transfer counts the message's bytes");
    expect(transfer.end <= t.now(), "a transfer has ended");
    expect(transfer.end.value >= transfer.start.value - 0.01, "a transfer ends after it starts");
  }
}

constexpr std::array cases = {
    TransportCase{"messages_of_one_tag_keep_their_order", messages_of_one_tag_keep_their_order},
    TransportCase{"the_receiver_chooses_by_tag", the_receiver_chooses_by_tag},
    TransportCase{"every_size_arrives_whole", every_size_arrives_whole},
    TransportCase{"many_small_messages", many_small_messages},
    TransportCase{"send_never_waits", send_never_waits},
    TransportCase{"random_traffic_of_all_pairs", random_traffic_of_all_pairs},
    TransportCase{"flush_waits_for_the_arrival", flush_waits_for_the_arrival},
    TransportCase{"transfers_record_what_arrived", transfers_record_what_arrived},
};

}  // namespace

std::span<const TransportCase> transport_cases() { return cases; }

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(data.data() + at, &state, 8);
  }
  for (; at < bytes; ++at) data[at] = static_cast<std::byte>(seed + at);
  return data;
}

LinkShapes suite_shapes() {
  return {{std::nullopt, LinkShape{BytesPerSecond(8e6), Seconds(0.02)}}, {std::nullopt, std::nullopt}};
}

void check_shaped_traffic(Transport& t, Seconds clocks_differ, Seconds lateness) {
  constexpr std::array<std::size_t, 3> sizes = {400'000, 200'000, 800'000};
  if (t.rank() == 0) {
    for (std::size_t i = 0; i < sizes.size(); ++i) t.send(1, tag_of(i), pattern(sizes[i], i));
    t.flush();
    return;
  }
  std::array<double, 3> taken_s{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    expect_message(t, 0, tag_of(i), sizes[i], i);
    taken_s[i] = t.now().value;
  }
  const auto transfers = transfers_of(t, tag_of(0).step);
  expect(transfers.size() == sizes.size(), "three transfers are recorded");
  // 8 MB/s: 50 ms, 25 ms, 100 ms one after the other, and 20 ms of latency for each.
  constexpr std::array<double, 3> closed_form_s = {0.070, 0.095, 0.195};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double since_s = transfers[i].end.value - transfers[0].start.value;
    expect(since_s >= closed_form_s[i] - clocks_differ.value,
           "message " + std::to_string(i) + " arrived after " + std::to_string(since_s) + " s, before its link could");
    expect(since_s <= closed_form_s[i] + lateness.value,
           "message " + std::to_string(i) + " arrived after " + std::to_string(since_s) + " s, too late");
    expect(taken_s[i] >= transfers[i].end.value, "a message was there before it arrived");
  }
}

}  // namespace fusion::exec
