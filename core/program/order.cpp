#include "core/program/order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "core/base/error.h"
#include "core/program/order_file.h"

namespace fusion {
namespace {

constexpr Phase F = Phase::forward, B = Phase::backward, I = Phase::input_gradient, W = Phase::weight_gradient;

/// Micro-batches in rounds of p or a few more, so that a chunk has its next micro-batch when its turn comes; all in one
/// round where there are fewer. The first `longer` rounds hold one more than the others.
struct Rounds {
  int size, longer;

  explicit Rounds(const OrderShape& shape) {
    const int count = std::max(1, shape.micro_batches / shape.num_devices);
    size = shape.micro_batches / count;
    longer = shape.micro_batches % count;
  }
  int first() const { return longer > 0 ? size + 1 : size; }
  /// Of the k-th turn when chunks take turns.
  int chunk(int k, int chunks) const {
    const int in_longer = longer * (size + 1) * chunks;
    return (k < in_longer ? k / (size + 1) : (k - in_longer) / size) % chunks;
  }
};

std::vector<Slot> expand(const std::vector<Repeat>& repeats, const OrderShape& shape, int chunks) {
  const Rounds rounds(shape);
  std::array<int, 4> rotated{};
  std::vector<std::array<int, 4>> done(static_cast<std::size_t>(chunks));
  std::vector<Slot> slots;
  slots.reserve(3 * static_cast<std::size_t>(chunks) * static_cast<std::size_t>(shape.micro_batches));
  const auto take = [&](Turn turn) {
    const auto phase = static_cast<std::size_t>(turn.phase);
    if (turn.chunk == rotating) {
      turn.chunk = rounds.chunk(rotated[phase]++, chunks);
      if (turn.phase != F) turn.chunk = chunks - 1 - turn.chunk;
    }
    int& micro_batch = done[static_cast<std::size_t>(turn.chunk)][phase];
    if (micro_batch < shape.micro_batches) slots.push_back({turn.phase, turn.chunk, micro_batch++});
  };
  for (const Repeat& repeat : repeats)
    for (int i = 0; i < repeat.times; ++i) {
      const std::size_t before = slots.size();
      std::ranges::for_each(repeat.turns, take);
      if (slots.size() == before) break;  // nothing is left of these, nor will be
    }
  return slots;
}

/// Backwards run in ascending order, as 1F1B's do, so that both orders add the gradients of micro-batches up in the
/// same sequence and train to the same bits.
std::vector<Repeat> gpipe_repeats(const OrderShape& shape, int) {
  return {{{{F, 0}}, shape.micro_batches}, {{{B, 0}}, shape.micro_batches}};
}

int gpipe_held(const OrderShape& shape, int) { return shape.micro_batches; }

int one_f_one_b_held(const OrderShape& shape, int) {
  return std::min(shape.micro_batches, shape.num_devices - shape.device);
}

/// So many forwards first; then as many more, each after a backward that makes room for it; then the backwards left.
std::vector<Repeat> alternating(int chunk, int warm_up, int passes) {
  return {{{{F, chunk}}, warm_up}, {{{B, chunk}, {F, chunk}}, passes - warm_up}, {{{B, chunk}}, warm_up}};
}

std::vector<Repeat> one_f_one_b_repeats(const OrderShape& shape, int) {
  return alternating(0, one_f_one_b_held(shape, 1), shape.micro_batches);
}

/// The first backward on the last chunk of a device needs the first round through the chunks before it. To be back in
/// time from each device behind, a micro-batch leaves two turns earlier, since those alternate by then; with one chunk
/// 1f1b's one turn does.
int interleaved_held(const OrderShape& shape, int chunks) {
  const int per_hop = chunks == 1 ? 1 : 2;
  const int warm_up = (chunks - 1) * Rounds(shape).first() + per_hop * (shape.num_devices - 1 - shape.device) + 1;
  return std::min(chunks * shape.micro_batches, warm_up);
}

std::vector<Repeat> interleaved_repeats(const OrderShape& shape, int chunks) {
  return alternating(rotating, interleaved_held(shape, chunks), chunks * shape.micro_batches);
}

/// 1f1b whose device d owes d weight gradients until the end, where it would wait for the devices before it.
std::vector<Repeat> zb_h1_repeats(const OrderShape& shape, int) {
  const int p = shape.num_devices, d = shape.device, m = std::max(shape.micro_batches, p);
  return {{{{F, 0}}, p - d},
          {{{I, 0}, {F, 0}}, d},
          {{{I, 0}, {W, 0}, {F, 0}}, m - p},
          {{{I, 0}, {W, 0}}, p - d},
          {{{W, 0}}, d}};
}

int zb_h1_held(const OrderShape& shape, int) { return std::min(shape.micro_batches, shape.num_devices); }

/// Made for at least 2 p - 1 micro-batches, which fill the v; of fewer, those that there are keep their places.
std::vector<Repeat> zbv_repeats(const OrderShape& shape, int) {
  const int p = shape.num_devices, d = shape.device, m = std::max(shape.micro_batches, 2 * p - 1);
  const int ahead = 2 * (p - d) - 1;  // forwards down the v before the first comes back up
  const int warm = ahead + d;
  return {{{{F, 0}}, ahead},
          {{{F, 1}, {F, 0}}, d},
          {{{F, 1}, {I, 1}, {W, 1}}, p - d},
          {{{F, 0}, {I, 0}, {W, 0}, {F, 1}, {I, 1}, {W, 1}}, m - warm},
          {{{I, 0}, {W, 0}, {F, 1}, {I, 1}, {W, 1}}, warm - p},
          {{{I, 0}, {I, 1}}, d},
          {{{I, 0}, {W, 0}}, p - d},
          {{{W, 1}}, d},
          {{{W, 0}}, d}};
}

int zbv_held(const OrderShape& shape, int) {
  const int p = shape.num_devices, m = shape.micro_batches;
  return std::min({2 * m, 2 * p, m + shape.device + 1});
}

constexpr std::array orders = {
    OrderRow{.name = "gpipe",
             .help = "all forwards, then all backwards; holds every micro-batch",
             .chunks = 1,
             .takes_chunks = false,
             .v_shaped = false,
             .splits_backward = false,
             .phases_apart = true,
             .repeats = gpipe_repeats,
             .held = gpipe_held},
    OrderRow{.name = "1f1b",
             .help = "alternates forward and backward after a short warm-up (PipeDream-flush)",
             .chunks = 1,
             .takes_chunks = false,
             .v_shaped = false,
             .splits_backward = false,
             .phases_apart = false,
             .repeats = one_f_one_b_repeats,
             .held = one_f_one_b_held},
    OrderRow{.name = "interleaved",
             .help = "1f1b with several stages per device: a shorter bubble, more messages (Megatron-LM)",
             .chunks = 2,
             .takes_chunks = true,
             .v_shaped = false,
             .splits_backward = false,
             .phases_apart = false,
             .repeats = interleaved_repeats,
             .held = interleaved_held},
    OrderRow{.name = "zb-h1",
             .help = "1f1b with weight gradients in its bubbles: a third of them, 1f1b's memory (zero bubble H1)",
             .chunks = 1,
             .takes_chunks = false,
             .v_shaped = false,
             .splits_backward = true,
             .phases_apart = false,
             .repeats = zb_h1_repeats,
             .held = zb_h1_held},
    OrderRow{.name = "zbv",
             .help = "two stages per device, there and back, weight gradients apart: hardly a bubble (zero bubble V)",
             .chunks = 2,
             .takes_chunks = false,
             .v_shaped = true,
             .splits_backward = true,
             .phases_apart = false,
             .repeats = zbv_repeats,
             .held = zbv_held}};

int parse_chunks(std::string_view name, std::string_view text) {
  int chunks = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), chunks);
  if (fault != std::errc() || end != text.data() + text.size() || chunks < 1 || chunks > max_chunks)
    throw std::invalid_argument("\"" + std::string(name) + "\": " + in_quotes(text) +
                                " is not a number of stages per device from 1 to " + std::to_string(max_chunks));
  return chunks;
}

Order order_of(const OrderRow& row, int chunks) {
  return {.name = std::string(row.name) + (row.takes_chunks ? ":" + std::to_string(chunks) : ""),
          .chunks = chunks,
          .splits_backward = row.splits_backward,
          .phases_apart = row.phases_apart,
          .row = &row};
}

Order order_of(const std::string& file) {
  auto table = std::make_shared<const OrderTable>(read_order(file));
  return {.name = file,
          .chunks = table->chunks(),
          .splits_backward = table->splits_backward,
          .phases_apart = false,
          .table = std::move(table)};
}

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

Order parse_order(std::string_view name) {
  if (name.ends_with(".csv")) return order_of(std::string(name));
  const std::size_t colon = name.find(':');
  std::vector<std::string_view> names;
  for (const OrderRow& row : orders) {
    names.push_back(row.name);
    if (row.name != name.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return order_of(row, row.chunks);
    if (!row.takes_chunks)
      throw std::invalid_argument("\"" + std::string(name) + "\" has a number, and " + std::string(row.name) +
                                  " takes none; write \"" + std::string(row.name) + "\"");
    return order_of(row, parse_chunks(name, name.substr(colon + 1)));
  }
  throw std::invalid_argument(unknown_name(name, names) + "; or a file FILE.csv");
}

Order find_order(std::string_view name) {
  try {
    return parse_order(name);
  } catch (const std::invalid_argument& fault) {
    throw InputError("", "order", fault.what());
  }
}

Order find_order(std::string_view name, int micro_batches) {
  Order order = find_order(name);
  if (order.table && order.table->micro_batches != micro_batches)
    throw InputError(order.name, "micro_batches",
                     "the file is for " + std::to_string(order.table->micro_batches) + ", the run has " +
                         std::to_string(micro_batches));
  return order;
}

std::vector<Slot> Order::slots(const OrderShape& shape) const {
  if (row != nullptr) return expand(row->repeats(shape, chunks), shape, chunks);
  check(table->num_devices() == shape.num_devices && table->micro_batches == shape.micro_batches,
        "a shape that the order's file is not for");
  return table->devices[static_cast<std::size_t>(shape.device)];
}

void Order::require_devices(int num_devices) const {
  if (table && table->num_devices() != num_devices)
    throw InputError(name, "",
                     "the file is for " + std::to_string(table->num_devices()) + " devices, the placement uses " +
                         std::to_string(num_devices));
}

int Order::in_flight(const OrderShape& shape) const {
  const auto rounded_up = [&](int held) { return (held + chunks - 1) / chunks; };
  if (row != nullptr) return rounded_up(row->held(shape, chunks));
  if (table->num_devices() != shape.num_devices || table->micro_batches != shape.micro_batches)
    return shape.micro_batches;
  return rounded_up(walked_held(table->devices[static_cast<std::size_t>(shape.device)]));
}

int Order::stage_of(int device, int chunk, int num_devices) const {
  if (table) return table->stages[static_cast<std::size_t>(device)][static_cast<std::size_t>(chunk)];
  return row->v_shaped && chunk == 1 ? 2 * num_devices - 1 - device : chunk * num_devices + device;
}

int Order::device_of(int stage, int num_devices) const {
  if (table) return table->place_of[static_cast<std::size_t>(stage)].device;
  return row->v_shaped && stage >= num_devices ? 2 * num_devices - 1 - stage : stage % num_devices;
}

int Order::chunk_of(int stage, int num_devices) const {
  if (table) return table->place_of[static_cast<std::size_t>(stage)].chunk;
  return stage / num_devices;
}

}  // namespace fusion
