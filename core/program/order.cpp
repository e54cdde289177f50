#include "core/program/order.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace fusion {
namespace {

/// Backwards run in ascending order, as 1F1B's do, so that both orders add the gradients of micro-batches up in the
/// same sequence and train to the same bits.
std::vector<Slot> gpipe_slots(const OrderShape& shape) {
  std::vector<Slot> slots;
  for (const Phase phase : {Phase::forward, Phase::backward})
    for (int i = 0; i < shape.micro_batches; ++i) slots.push_back({phase, 0, i});
  return slots;
}

int gpipe_in_flight(const OrderShape& shape) { return shape.micro_batches; }

int one_f_one_b_in_flight(const OrderShape& shape) {
  return std::min(shape.micro_batches, shape.num_stages - shape.stage);
}

std::vector<Slot> one_f_one_b_slots(const OrderShape& shape) {
  const int warm_up = one_f_one_b_in_flight(shape);
  std::vector<Slot> slots;
  for (int i = 0; i < warm_up; ++i) slots.push_back({Phase::forward, 0, i});
  for (int i = 0; i < shape.micro_batches; ++i) {
    slots.push_back({Phase::backward, 0, i});
    if (warm_up + i < shape.micro_batches) slots.push_back({Phase::forward, 0, warm_up + i});
  }
  return slots;
}

constexpr std::array orders = {
    OrderRow{"gpipe", "all forwards, then all backwards; holds every micro-batch", gpipe_slots, gpipe_in_flight, true},
    OrderRow{"1f1b", "alternates forward and backward after a short warm-up (PipeDream-flush)", one_f_one_b_slots,
             one_f_one_b_in_flight, false}};

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::input_gradient:
      return "input gradient";
    case Phase::weight_gradient:
      return "weight gradient";
    case Phase::exchange:
      return "exchange";
    case Phase::update:
      return "update";
  }
  check(false, "a phase without a name");
  return {};
}

std::span<const OrderRow> order_table() { return orders; }

const OrderRow& find_order(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OrderRow& row : orders) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw InputError("", "order", unknown_name(name, names));
}

}  // namespace fusion
