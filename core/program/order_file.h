// A pipeline order as a table, and as a CSV file: the format of torch.distributed.pipelining ("compute only"), so that
// its schedules can be read and ours given to it.
//
//   0F0,0F1,,0B0,,0B1      one line per device, one cell per turn: stage, phase, micro-batch
//   ,1F0,1B0,1F1,1B1       phases: F forward, B backward, I input gradient, W weight gradient
//
// An empty cell is a turn without work; only the sequence counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/program/order.h"

namespace fusion {

struct OrderTable {
  int micro_batches = 0;
  bool splits_backward = false;
  std::vector<std::vector<int>> stages;    ///< of a device, by chunk; ascending
  std::vector<std::vector<Slot>> devices;  ///< their turns
  struct Place {
    int device, chunk;
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> place_of;  ///< by stage: where it stands in `stages`

  int num_devices() const { return static_cast<int>(devices.size()); }
  int chunks() const { return static_cast<int>(place_of.size() / devices.size()); }
  bool operator==(const OrderTable&) const = default;
};

/// The whole table of an order.
OrderTable tabulate(const Order&, int num_devices, int micro_batches);

/// Throws InputError(source, …) unless
///   - every stage is on one device, each device has as many, and stage s of the first p is on device s;
///   - every stage does every micro-batch once: forward and backward, or forward and both halves, as all others do;
///   - all of it can run: a turn waits for the turn before it on its device and for what the stages beside it send.
///     Sends are buffered and the messages of a channel travel in the sender's order. What waits for what is printed.
void validate(const OrderTable&, const std::string& source);

/// Throws InputError with file, line and cell for what is no order.
OrderTable read_order(const std::string& file);
OrderTable parse_order_table(std::string_view text, const std::string& source);

/// Turns that could start at the same time stand in one column, if every turn took as long.
std::string write_order(const OrderTable&);

/// Most pairs of chunk and micro-batch between their forward and the end of their backward, in a device's turns.
int walked_held(const std::vector<Slot>&);

}  // namespace fusion
