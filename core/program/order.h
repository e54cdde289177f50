// Pipeline orders: in which sequence a device works through forward and backward of its micro-batches. One row each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fusion {

enum class Phase : std::uint8_t {
  forward,
  backward,        ///< input and weight gradient in one
  input_gradient,  ///< the two halves of orders that split the backward pass
  weight_gradient,
  exchange,  ///< parameter gradients between devices: tied parameters, replicas
  update     ///< optimizer step
};
std::string_view name_of(Phase);

/// One turn of a device.
struct Slot {
  Phase phase;
  int chunk;  ///< which of the device's stages (0 unless the order has virtual stages)
  int micro_batch;
  bool operator==(const Slot&) const = default;
};

struct OrderShape {
  int num_stages;
  int stage;
  int micro_batches;
};

struct OrderRow {
  std::string_view name;
  std::string_view help;
  std::vector<Slot> (*slots)(const OrderShape&);
  /// Most micro-batches whose activations a stage holds at once; what the memory model multiplies by. Always equal to
  /// the peak found by walking `slots` (tests hold them together).
  int (*in_flight)(const OrderShape&);
  bool phases_apart;  ///< every forward of an iteration comes before its first backward
};

/// gpipe: all forwards, then all backwards. 1f1b: stage s runs min(m, p - s) forwards, then alternates
/// (PipeDream-flush).
std::span<const OrderRow> order_table();
/// Throws InputError with the nearest names.
const OrderRow& find_order(std::string_view name);

}  // namespace fusion
