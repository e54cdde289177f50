// The engines that replay a Program, by name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/report/report.h"

namespace fusion::sim {

struct EngineRow {
  std::string_view name, help;
  /// Throws InputError for a network that it does not have.
  void (*require_network)(const std::string& name);
  Report (*simulate)(const Program&, const Platform&, const std::string& network, bool timeline);
  /// The same many times per process, without the timeline.
  Report (*simulate_again)(const Program&, const Platform&, const std::string& network);
};

std::span<const EngineRow> engine_table();
/// Throws InputError with the nearest names.
const EngineRow& find_engine(std::string_view name);

/// What --engine takes, for --help.
std::string engine_help();

/// "ideal: …; tcp: … (simgrid); …": what --network takes, for --help.
std::string network_help();

}  // namespace fusion::sim
