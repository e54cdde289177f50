// What every transport must do, as cases that each rank runs at the same time over its own transport: threads and MPI
// alike.
#pragma once

#include <span>
#include <string_view>

#include "exec/transport.h"

namespace fusion::exec {

struct TransportCase {
  std::string_view name;
  void (*run)(Transport&);  ///< all ranks; throws std::runtime_error that says what differs
};
/// At least two ranks, no link shaped.
std::span<const TransportCase> transport_cases();

/// Bytes that follow from the seed.
std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);

/// The links that check_shaped_traffic expects of two ranks: 8 MB/s and 20 ms from 0 to 1, free in return.
LinkShapes suite_shapes();
/// Rank 0 sends three messages at once to rank 1, which compares their times with the closed form: never early by more
/// than the clocks differ, late by at most `lateness`.
void check_shaped_traffic(Transport&, Seconds clocks_differ, Seconds lateness);

}  // namespace fusion::exec
