// Lists of steps against the plain sequences they stand for.
#include "core/program/step_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace fusion {
namespace {

TaskId task(std::size_t t) { return TaskId(t); }

/// Chunk c has a forward of tasks 10c, 10c + 1 and a backward of task 10c + 2; chunk 1 has no backward.
TurnTable table() {
  TurnTable turns;
  turns.at(0, Phase::forward) = {task(0), task(1)};
  turns.at(0, Phase::backward) = {task(2)};
  turns.at(1, Phase::forward) = {task(10), task(11)};
  return turns;
}

/// Slot by slot.
std::vector<Step> naive(const TurnTable& turns, const std::vector<Slot>& slots) {
  std::vector<Step> steps;
  for (const Slot& slot : slots)
    for (const TaskId id : turns.of(slot)) steps.push_back({id, static_cast<std::uint32_t>(slot.micro_batch)});
  return steps;
}

TEST(StepList, EveryOrderIsTheSequenceOfItsSlots) {
  for (const OrderRow& order : order_table())
    for (const int micro_batches : {1, 2, 3, 7, 64})
      for (const int stages : {1, 2, 5, 70})
        for (const int stage : {0, stages / 2, stages - 1}) {
          const std::vector<Slot> slots = find_order(order.name).slots({stages, stage, micro_batches});
          const StepList list = step_list(table(), slots);
          EXPECT_EQ(expand(list), naive(table(), slots)) << order.name << " " << stages << " x " << micro_batches;
          EXPECT_EQ(list.size(), naive(table(), slots).size());
        }
}

// 1F1B, stage 2 of 5: three warm-up rounds of F, then (B, F), then three of B.
TEST(StepList, AThousandMicroBatchesTakeThreeBlocks) {
  const StepList list = step_list(table(), find_order("1f1b").slots({5, 2, 1000}));
  ASSERT_EQ(list.blocks().size(), 3u);
  EXPECT_EQ(list.blocks()[0].rounds, 3u);
  EXPECT_EQ(list.blocks()[1].rounds, 997u);
  EXPECT_EQ(list.blocks()[2].rounds, 3u);
  EXPECT_THAT(list.round(list.blocks()[1]), testing::ElementsAre(Step{task(2), 0}, Step{task(0), 3}, Step{task(1), 3}));
  EXPECT_EQ(step_list(table(), find_order("gpipe").slots({5, 2, 1000})).blocks().size(), 2u);
}

// Pieces of what orders are made of, in any sequence: runs up and down, of one or two turns, with and without gaps.
TEST(StepList, RandomSlotsAreKeptExactly) {
  std::mt19937_64 random(5);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  for (int round = 0; round < 500; ++round) {
    std::vector<Slot> slots;
    for (int piece = below(6); piece >= 0; --piece) {
      const int length = below(9), stride = below(5) - 2, first = 20 + below(4), size = 1 + below(3);
      for (int i = 0; i < length; ++i)
        for (int k = 0; k < size; ++k)
          slots.push_back({k == 1 ? Phase::backward : Phase::forward, below(20) == 0 ? 1 : 0, first + stride * i});
    }
    const StepList list = step_list(table(), slots);
    const std::vector<Step> plain = naive(table(), slots);
    ASSERT_EQ(expand(list), plain) << round;
    ASSERT_EQ(list, StepList(plain)) << round;
    std::vector<Step> wanted;
    std::ranges::copy_if(plain, std::back_inserter(wanted), [](Step s) { return s.task != task(0); });
    ASSERT_EQ(expand(filter(list, [](TaskId t) { return t != task(0); })), wanted) << round;
    if (!plain.empty()) {
      StepList other = list;
      other.push_back(plain.front());
      ASSERT_NE(list, other);
      ASSERT_EQ(other.size(), plain.size() + 1);
    }
  }
}

TEST(StepList, AnIteratorSkipsRounds) {
  const StepList list = step_list(table(), find_order("gpipe").slots({1, 0, 100}));
  StepList::Iterator at = list.begin();
  at.skip_rounds(40);
  EXPECT_EQ(*at, (Step{task(0), 40}));
  EXPECT_EQ(at.rounds_begun(), 40u);
  at.skip_rounds(59);
  EXPECT_EQ(*++at, (Step{task(1), 99}));
  EXPECT_EQ(*++at, (Step{task(2), 0}));
  EXPECT_EQ(at.block_index(), 1u);
}

}  // namespace
}  // namespace fusion
