// Pipeline orders: every row of the table, over many shapes.
#include "core/program/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"

namespace fusion {
namespace {

/// Calls `visit(row, shape)` for every order and every shape up to 6 stages and 9 micro-batches.
template <class Visit>
void for_each_shape(Visit visit) {
  for (const OrderRow& row : order_table())
    for (int stages = 1; stages <= 6; ++stages)
      for (int stage = 0; stage < stages; ++stage)
        for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
          visit(row, OrderShape{stages, stage, micro_batches});
}

std::string text(const OrderRow& row, const OrderShape& shape) {
  return std::string(row.name) + " p=" + std::to_string(shape.num_stages) + " s=" + std::to_string(shape.stage) +
         " m=" + std::to_string(shape.micro_batches);
}

TEST(Order, EveryMicroBatchOncePerPhaseAndForwardFirst) {
  for_each_shape([](const OrderRow& row, const OrderShape& shape) {
    std::vector<int> forwards, backwards;
    for (const Slot& slot : row.slots(shape)) {
      if (slot.phase == Phase::forward) {
        forwards.push_back(slot.micro_batch);
        continue;
      }
      ASSERT_EQ(slot.phase, Phase::backward);
      EXPECT_THAT(forwards, testing::Contains(slot.micro_batch)) << text(row, shape);
      backwards.push_back(slot.micro_batch);
    }
    std::vector<int> all(static_cast<std::size_t>(shape.micro_batches));
    for (int i = 0; i < shape.micro_batches; ++i) all[static_cast<std::size_t>(i)] = i;
    EXPECT_THAT(forwards, testing::UnorderedElementsAreArray(all)) << text(row, shape);
    EXPECT_THAT(backwards, testing::UnorderedElementsAreArray(all)) << text(row, shape);
  });
}

TEST(Order, InFlightIsTheWalkedPeak) {
  for_each_shape([](const OrderRow& row, const OrderShape& shape) {
    int live = 0, peak = 0;
    for (const Slot& slot : row.slots(shape)) {
      live += slot.phase == Phase::forward ? 1 : -1;
      peak = std::max(peak, live);
    }
    EXPECT_EQ(row.in_flight(shape), peak) << text(row, shape);
  });
}

// Orders that add gradients up in the same sequence train to the same bits.
TEST(Order, BackwardsAscend) {
  for_each_shape([](const OrderRow& row, const OrderShape& shape) {
    int next = 0;
    for (const Slot& slot : row.slots(shape)) {
      if (slot.phase != Phase::backward) continue;
      EXPECT_EQ(slot.micro_batch, next++) << text(row, shape);
    }
  });
}

TEST(Order, OneForwardOneBackwardByHand) {
  // Stage 1 of 3, 4 micro-batches: min(4, 3 - 1) = 2 forwards first.
  std::string order;
  for (const Slot& slot : find_order("1f1b").slots({3, 1, 4}))
    order += (slot.phase == Phase::forward ? "F" : "B") + std::to_string(slot.micro_batch) + " ";
  EXPECT_EQ(order, "F0 F1 B0 F2 B1 F3 B2 B3 ");
}

TEST(Order, UnknownNameShowsTheNearest) {
  EXPECT_THAT([] { find_order("1f1f"); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("did you mean \"1f1b\"")));
  EXPECT_THROW(find_order(""), InputError);
}

}  // namespace
}  // namespace fusion
