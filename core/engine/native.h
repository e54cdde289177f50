// The native engine: a Program replayed by an event loop of our own, for search and sweeps; SimGrid is the referee. Any
// number of runs per process, no global state.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/report/report.h"

namespace fusion {

/// How messages share the network. In all of them the messages of a channel travel one at a time, in program order, and
/// latency delays the arrival and occupies nothing.
enum class NativeNetwork : std::uint8_t {
  ideal,     ///< shared links are divided max-min fairly, as SimGrid's `ideal` does
  no_share,  ///< every message has its route's bandwidth to itself: a lower bound, and the fastest to compute
  one_send   ///< as no_share, but a device sends one message at a time, in its program's order
};

struct NativeNetworkRow {
  NativeNetwork network;
  std::string_view name, help;
};
std::span<const NativeNetworkRow> native_networks();
/// Throws InputError with the nearest names.
const NativeNetworkRow& find_native_network(std::string_view name);

struct NativeOptions {
  NativeNetwork network = NativeNetwork::ideal;
  bool timeline = false;
  bool leap = true;  ///< skips what repeats itself; never with a timeline
};

/// Deterministic and thread-safe. The program is valid (core/program/lower.h). Throws RuntimeFault when the run stops
/// with work left: each waiting task, its peer and bytes.
Report simulate_native(const Program&, const Platform&, const NativeOptions& = {});

/// The iteration time alone, without the report.
Seconds native_iteration(const Program&, const Platform&, NativeNetwork = NativeNetwork::ideal);

}  // namespace fusion
