#include "sim/engines.h"

#include <array>
#include <vector>

#include "core/base/error.h"
#include "core/engine/native.h"
#include "sim/simulate.h"

namespace fusion::sim {
namespace {

/// A network that only the other engine has is not unknown.
void require_native_network(const std::string& name) {
  for (const NetworkProfile& profile : network_profiles())
    if (profile.name == name && name != "ideal")
      throw InputError("", "network", in_quotes(name) + " is a model of simgrid; say --engine simgrid");
  find_native_network(name);
}

Report native(const Program& program, const Platform& platform, const std::string& network, bool timeline) {
  return simulate_native(program, platform, {find_native_network(network).network, timeline});
}

constexpr std::array engines = {
    EngineRow{"simgrid", "the referee", [](const std::string& name) { find_network_profile(name); },
              [](const Program& program, const Platform& platform, const std::string& network, bool timeline) {
                return simulate(program, platform, {network, timeline});
              },
              [](const Program& program, const Platform& platform, const std::string& network) {
                return simulate_isolated(program, platform, {network, false});
              }},
    EngineRow{"native", "our own event loop, some ten times as fast", require_native_network, native,
              [](const Program& program, const Platform& platform, const std::string& network) {
                return native(program, platform, network, false);
              }}};

}  // namespace

std::span<const EngineRow> engine_table() { return engines; }

const EngineRow& find_engine(std::string_view name) {
  std::vector<std::string_view> names;
  for (const EngineRow& row : engines) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw InputError("", "engine", unknown_name(name, names));
}

std::string engine_help() {
  std::string text;
  for (const EngineRow& row : engines)
    text += (text.empty() ? "" : "; ") + std::string(row.name) + ": " + std::string(row.help);
  return text;
}

std::string network_help() {
  std::string text;
  for (const NetworkProfile& profile : network_profiles())
    text += (text.empty() ? "" : "; ") + std::string(profile.name) + ": " + std::string(profile.help);
  text += "; native has ideal";
  for (const NativeNetworkRow& row : native_networks().subspan(1))
    text += ", " + std::string(row.name) + ": " + std::string(row.help);
  return text;
}

}  // namespace fusion::sim
