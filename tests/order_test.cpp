// Pipeline orders: every row of the table, over many shapes, and orders from files.
#include "core/program/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/program/order_file.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int most_devices = 8, most_micro_batches = 24, most_chunks = 4;

/// Every order, with every number of chunks where it takes one.
std::vector<Order> all_orders() {
  std::vector<Order> orders;
  for (const OrderRow& row : order_table()) {
    const std::string name(row.name);
    if (!row.takes_chunks) orders.push_back(find_order(name));
    for (int c = 1; row.takes_chunks && c <= most_chunks; ++c)
      orders.push_back(find_order(name + ":" + std::to_string(c)));
  }
  return orders;
}

/// Calls `visit(order, p, m)` for every order and size.
template <class Visit>
void for_each_size(Visit visit) {
  for (const Order& order : all_orders())
    for (int p = 1; p <= most_devices; ++p)
      for (int m = 1; m <= most_micro_batches; ++m) {
        SCOPED_TRACE(order.name + " p=" + std::to_string(p) + " m=" + std::to_string(m));
        visit(order, p, m);
      }
}

std::string text(const std::vector<Slot>& slots, bool chunks = false) {
  std::string all;
  for (const Slot& slot : slots) {
    if (!all.empty()) all += ' ';
    all += "FBIW"[static_cast<std::size_t>(slot.phase)];
    if (chunks) all += static_cast<char>('a' + slot.chunk);
    all += std::to_string(slot.micro_batch);
  }
  return all;
}

/// Units of time that a phase takes on one chunk.
using Times = std::map<Phase, int>;

struct Played {
  int makespan = 0;
  int longest_wait = 0;  ///< of a device, between its first turn and its last, in all
};

/// A naive runner: looks at every device until nothing moves. Fails where something is left.
Played play(const Order& order, int p, int m, const Times& times) {
  std::map<std::tuple<int, Phase, int>, int> done;  // stage, phase, micro-batch
  std::vector<std::vector<Slot>> lists;
  for (int d = 0; d < p; ++d) lists.push_back(order.slots({p, d, m}));
  std::vector<std::size_t> next(lists.size());
  std::vector<int> free(lists.size()), waited(lists.size());
  Played played;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < lists.size(); ++d) {
      if (next[d] == lists[d].size()) continue;
      const Slot slot = lists[d][next[d]];
      const int stage = order.stage_of(static_cast<int>(d), slot.chunk, p);
      std::vector<std::tuple<int, Phase, int>> needed;
      if (slot.phase == Phase::weight_gradient) needed = {{stage, Phase::input_gradient, slot.micro_batch}};
      if (slot.phase == Phase::forward && stage > 0) needed = {{stage - 1, Phase::forward, slot.micro_batch}};
      if (slot.phase == Phase::backward || slot.phase == Phase::input_gradient) {
        needed = {{stage, Phase::forward, slot.micro_batch}};
        if (stage + 1 < p * order.chunks) needed.push_back({stage + 1, slot.phase, slot.micro_batch});
      }
      if (!std::ranges::all_of(needed, [&](const auto& n) { return done.contains(n); })) continue;
      int start = free[d];
      for (const auto& n : needed) start = std::max(start, done[n]);
      if (next[d] > 0) waited[d] += start - free[d];
      free[d] = start + times.at(slot.phase);
      done[{stage, slot.phase, slot.micro_batch}] = free[d];
      ++next[d];
      moved = true;
    }
  }
  for (std::size_t d = 0; d < lists.size(); ++d) EXPECT_EQ(next[d], lists[d].size()) << "device " << d << " is stuck";
  return {std::ranges::max(free), std::ranges::max(waited)};
}

/// Makespan beyond the work of one device, for times of one chunk.
int bubble(const Order& order, int p, int m, const Times& times) {
  int work = times.at(Phase::forward);
  work += order.splits_backward ? times.at(Phase::input_gradient) + times.at(Phase::weight_gradient)
                                : times.at(Phase::backward);
  return play(order, p, m, times).makespan - work * m * order.chunks;
}

Times whole(int forward, int backward) { return {{Phase::forward, forward}, {Phase::backward, backward}}; }
Times halves(int forward, int input, int weight) {
  return {{Phase::forward, forward}, {Phase::input_gradient, input}, {Phase::weight_gradient, weight}};
}

TEST(Order, EveryTurnOnceAndNoneWaitsForever) {
  for_each_size([](const Order& order, int p, int m) {
    const OrderTable table = tabulate(order, p, m);
    EXPECT_NO_THROW(validate(table, order.name));
    const std::size_t phases = order.splits_backward ? 3 : 2;
    std::size_t turns = 0;
    for (const auto& slots : table.devices) turns += slots.size();
    EXPECT_EQ(turns, phases * static_cast<std::size_t>(p * order.chunks * m));
  });
}

TEST(Order, StagesAreSpreadOverDevicesAndChunks) {
  for_each_size([](const Order& order, int p, int m) {
    if (m > 1) return;
    std::set<int> seen;
    for (int d = 0; d < p; ++d)
      for (int c = 0; c < order.chunks; ++c) {
        const int stage = order.stage_of(d, c, p);
        seen.insert(stage);
        EXPECT_EQ(order.device_of(stage, p), d);
        EXPECT_EQ(order.chunk_of(stage, p), c);
      }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(p * order.chunks));
    EXPECT_EQ(*seen.rbegin(), p * order.chunks - 1);
  });
  const Order v = find_order("zbv"), loop = find_order("interleaved:3");
  for (const auto& [stage, device] : std::map<int, int>{{0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 1}, {5, 0}})
    EXPECT_EQ(v.device_of(stage, 3), device);
  for (int stage = 0; stage < 9; ++stage) EXPECT_EQ(loop.device_of(stage, 3), stage % 3);
}

TEST(Order, HeldIsTheWalkedPeak) {
  for_each_size([](const Order& order, int p, int m) {
    for (int d = 0; d < p; ++d) {
      const OrderShape shape{p, d, m};
      std::set<std::pair<int, int>> live;
      std::size_t peak = 0;
      for (const Slot& slot : order.slots(shape)) {
        if (slot.phase == Phase::forward) live.insert({slot.chunk, slot.micro_batch});
        peak = std::max(peak, live.size());
        if (slot.phase == Phase::backward || slot.phase == Phase::weight_gradient)
          live.erase({slot.chunk, slot.micro_batch});
      }
      EXPECT_EQ(order.row->held(shape, order.chunks), static_cast<int>(peak)) << d;
      EXPECT_EQ(walked_held(order.slots(shape)), static_cast<int>(peak)) << d;
      EXPECT_EQ(order.in_flight(shape), (static_cast<int>(peak) + order.chunks - 1) / order.chunks);
    }
  });
}

// Orders that add gradients up in the same sequence train to the same bits.
TEST(Order, MicroBatchesAscendInEveryPhaseOfAChunk) {
  for_each_size([](const Order& order, int p, int m) {
    std::map<std::pair<Phase, int>, int> next;
    for (const Slot& slot : order.slots({p, p / 2, m})) EXPECT_EQ(slot.micro_batch, (next[{slot.phase, slot.chunk}]++));
  });
}

// (p - 1) (tF + tB) of p - 1 devices that wait for the first forward to arrive and the last backward to return.
TEST(Order, BubbleOfGPipeAndOneFOneB) {
  for (const char* name : {"gpipe", "1f1b"})
    for (int p = 1; p <= most_devices; ++p)
      for (int m = 1; m <= most_micro_batches; ++m)
        for (const auto& [f, b] : {std::pair{1, 2}, {3, 1}, {2, 2}}) {
          EXPECT_EQ(bubble(find_order(name), p, m, whole(f, b)), (p - 1) * (f + b)) << name << p << m;
          // The bubble's share of all, the textbook's (p - 1) / (m + p - 1).
          const double share =
              1 - m * (f + b) / static_cast<double>(play(find_order(name), p, m, whole(f, b)).makespan);
          EXPECT_NEAR(share, (p - 1.0) / (m + p - 1.0), 1e-12);
        }
}

// The times of a chunk are those of a device over c, so (p - 1) (tF + tB) of chunks is a c-th of 1f1b's bubble. Below p
// micro-batches a round is shorter than the loop, and each further chunk waits for the first to come round.
TEST(Order, BubbleOfInterleaved) {
  for (int c = 1; c <= most_chunks; ++c)
    for (int p = 1; p <= most_devices; ++p)
      for (int m = 1; m <= most_micro_batches; ++m)
        for (const auto& [f, b] : {std::pair{1, 2}, {1, 1}, {2, 3}})
          EXPECT_EQ(bubble(find_order("interleaved:" + std::to_string(c)), p, m, whole(f, b)),
                    (p - 1 + std::max(0, p - m) * (c - 1)) * (f + b))
              << c << " " << p << " " << m;
}

TEST(Order, InterleavedWithOneChunkIsOneFOneB) {
  for (int p = 1; p <= most_devices; ++p)
    for (int m = 1; m <= most_micro_batches; ++m)
      for (int d = 0; d < p; ++d)
        EXPECT_EQ(find_order("interleaved:1").slots({p, d, m}), find_order("1f1b").slots({p, d, m}));
}

// (p - 1) (tF + tI - tW), Qi et al. 2024, table 2. With equal times a third of 1f1b's (p - 1) (tF + tI + tW).
TEST(Order, BubbleOfZeroBubbleH1) {
  const Order order = find_order("zb-h1");
  for (int p = 1; p <= most_devices; ++p)
    for (int m = p; m <= most_micro_batches; ++m) {
      for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, {2, 2, 1}, {3, 2, 2}, {2, 4, 1}, {5, 7, 0}})
        EXPECT_EQ(bubble(order, p, m, halves(f, i, w)), (p - 1) * (f + i - w)) << p << " " << m;
      EXPECT_EQ(3 * bubble(order, p, m, halves(1, 1, 1)), bubble(find_order("1f1b"), p, m, whole(1, 2)));
    }
}

// No device waits between its first turn and its last. What is left is the p - 1 passes until the last device starts.
TEST(Order, BubbleOfZeroBubbleV) {
  const Order order = find_order("zbv");
  for (int p = 1; p <= most_devices; ++p)
    for (int m = 2 * p - 1; m <= most_micro_batches; ++m) {
      const Played played = play(order, p, m, halves(1, 1, 1));
      EXPECT_EQ(played.longest_wait, 0) << p << " " << m;
      EXPECT_EQ(played.makespan, 6 * m + p - 1) << p << " " << m;
    }
}

TEST(Order, ByHand) {
  // 1f1b, device 1 of 3, 4 micro-batches: min(4, 3 - 1) = 2 forwards first.
  EXPECT_EQ(text(find_order("1f1b").slots({3, 1, 4})), "F0 F1 B0 F2 B1 F3 B2 B3");
  // Megatron-LM, p = 2, 2 chunks, m = 4: device 0 warms up with 2 (2 - 0 - 1) + 2 = 4 forwards, one more and it
  // alternates; rounds of 2 micro-batches on chunk a, then b, backwards from b.
  EXPECT_EQ(text(find_order("interleaved:2").slots({2, 0, 4}), true),
            "Fa0 Fa1 Fb0 Fb1 Fa2 Bb0 Fa3 Bb1 Fb2 Ba0 Fb3 Ba1 Bb2 Bb3 Ba2 Ba3");
  EXPECT_EQ(text(find_order("interleaved:2").slots({2, 1, 4}), true),
            "Fa0 Fa1 Fb0 Bb0 Fb1 Bb1 Fa2 Ba0 Fa3 Ba1 Fb2 Bb2 Fb3 Bb3 Ba2 Ba3");
  // 5 micro-batches on 2 devices: rounds of 3 and 2.
  EXPECT_EQ(text(find_order("interleaved:2").slots({2, 1, 5}), true),
            "Fa0 Fa1 Fa2 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fa3 Ba0 Fa4 Ba1 Fb3 Ba2 Fb4 Bb3 Bb4 Ba3 Ba4");
  // Zero bubble H1, p = 3, m = 4: device 2 owes two weight gradients at the end, device 0 none.
  EXPECT_EQ(text(find_order("zb-h1").slots({3, 0, 4})), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(find_order("zb-h1").slots({3, 2, 4})), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
  // Zero bubble V, p = 2, m = 3: the first micro-batch comes back to device 0 after 3 forwards down.
  EXPECT_EQ(text(find_order("zbv").slots({2, 0, 3}), true),
            "Fa0 Fa1 Fa2 Fb0 Ib0 Wb0 Fb1 Ib1 Wb1 Ia0 Wa0 Fb2 Ib2 Wb2 Ia1 Wa1 Ia2 Wa2");
  EXPECT_EQ(text(find_order("zbv").slots({2, 1, 3}), true),
            "Fa0 Fb0 Fa1 Fb1 Ib0 Wb0 Fa2 Ia0 Wa0 Fb2 Ib1 Wb1 Ia1 Ib2 Ia2 Wa1 Wb2 Wa2");
}

TEST(Order, NamesTakeTheirNumbers) {
  EXPECT_EQ(find_order("interleaved").name, "interleaved:2");
  EXPECT_EQ(find_order("interleaved:3").chunks, 3);
  EXPECT_EQ(find_order("zbv").chunks, 2);
  EXPECT_THAT([] { find_order("1f1f"); }, ThrowsMessage<InputError>(HasSubstr("did you mean \"1f1b\"")));
  EXPECT_THROW(find_order(""), InputError);
  for (const char* wrong : {"interleaved:", "interleaved:0", "interleaved:65", "interleaved:2x", "interleaved:-1"})
    EXPECT_THAT([&] { find_order(wrong); }, ThrowsMessage<InputError>(HasSubstr("from 1 to 64"))) << wrong;
  EXPECT_THAT([] { find_order("zbv:2"); }, ThrowsMessage<InputError>(HasSubstr("takes none; write \"zbv\"")));
}

TEST(OrderFile, WrittenAndReadAgain) {
  for_each_size([](const Order& order, int p, int m) {
    if (m % 5 > 1) return;
    const OrderTable table = tabulate(order, p, m);
    EXPECT_EQ(parse_order_table(write_order(table), "again"), table);
  });
}

// Stage 0 starts at once, stage 1 one turn later; a backward can start once the one behind it has run.
TEST(OrderFile, TurnsStandInTheColumnOfTheirStart) {
  EXPECT_EQ(write_order(tabulate(find_order("1f1b"), 2, 2)), "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n");
}

TEST(OrderFile, SpacesEmptyCellsAndLineEndsDoNotCount) {
  EXPECT_EQ(parse_order_table("0F0, 0F1,,\t0B0,,0B1,,\r\n1F0,1B0,1F1,1B1\r\n\n", "f"),
            tabulate(find_order("1f1b"), 2, 2));
}

TEST(OrderFile, FaultsNameFileLineAndCell) {
  struct Case {
    const char *text, *where, *what;
  };
  for (const Case& each : {
           Case{"0F0,0X0\n", "f.csv:1:", "\"0X0\" is no turn"},
           {"0F0,F0\n", "f.csv:1:", "\"F0\" is no turn"},
           {"0F0,0B\n", "f.csv:1:", "\"0B\" is no turn"},
           {"0F0,0B0 0F1\n", "f.csv:1:", "is no turn"},
           {"0F0,0F-1\n", "f.csv:1:", "\"0F-1\" is no turn"},
           {"0F0,0B99999999999\n", "f.csv:1:", "is no turn"},
           {"0F0,0B0\n,,\n", "f.csv:2:", "without a turn"},
           {"0F0,0B0\n0F1,0B1\n", "f.csv:2: 0F1:", "stage 0 is on line 1 already"},
           {"0F0,0B0\n2F0,2B0\n", "f.csv:", "count from 0 without a gap"},
           {"1F0,1B0\n0F0,0B0\n", "f.csv:1:", "must be 0"},
           {"0F0,2F0,2B0,0B0\n1F0,1B0\n", "f.csv:2:", "1 stages, that of line 1 has 2"},
           {"0F0\n", "f.csv:1: 0B0:", "is missing"},
           {"0F1,0B1\n", "f.csv:1: 0F0:", "is missing"},
           {"0F0,0I0\n", "f.csv:1: 0W0:", "is missing"},
           {"0F0,0B0,0F0\n", "f.csv:1: 0F0:", "twice"},
           {"0F0,0F1,0I0,0W0,0B1\n", "f.csv:1: 0B1:", "must do so everywhere"},
           {"0B0,0F0\n", "f.csv:", "0B0 on line 1 waits for 0F0 on line 1"},
           {"0F0,0W0,0I0\n", "f.csv:", "0W0 on line 1 waits for 0I0 on line 1"},
           // Device 0 wants the gradient before it has sent the second activation, device 1 gives it only after.
           {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
            "f.csv:", "0B0 on line 1 waits for 1B0 on line 2; 1F1 on line 2 waits for 0F1 on line 1"},
       })
    EXPECT_THAT([&] { parse_order_table(each.text, "f.csv"); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(each.where), HasSubstr(each.what))))
        << each.text;
  EXPECT_THAT([] { find_order("nowhere/mine.csv"); }, ThrowsMessage<InputError>(HasSubstr("no such file")));
}

}  // namespace
}  // namespace fusion
