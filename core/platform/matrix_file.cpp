#include "core/platform/matrix_file.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/platform/groups.h"

namespace fusion {
namespace {

using Level = LinkMatrix::Level;
using Rows = std::vector<std::vector<double>>;

struct KeyUnit {
  std::string_view key, unit;
};
constexpr std::array bandwidth_keys = {KeyUnit{"bandwidth_gbps", "Gbps"}, KeyUnit{"bandwidth_mbps", "Mbps"}};
constexpr std::array latency_keys = {KeyUnit{"latency_ms", "ms"}, KeyUnit{"latency_us", "us"}};

Level read_level(const TomlTable& table) {
  constexpr std::array<std::string_view, 4> names = {"region", "site", "host", "device"};
  const std::string name = table.string("level");
  if (name == "region") return Level::region;
  if (name == "site") return Level::site;
  if (name == "host") return Level::host;
  if (name == "device") return Level::device;
  throw table.error("level", unknown_name(name, names));
}

/// Which of two keys, each naming a unit, the table has.
KeyUnit which_key(const TomlTable& table, const std::array<KeyUnit, 2>& keys) {
  const bool first = table.has(keys[0].key), second = table.has(keys[1].key);
  if (first && second) throw table.error(keys[1].key, "stands beside " + std::string(keys[0].key) + "; keep one");
  return second ? keys[1] : keys[0];
}

struct MatrixFile {
  Level level{};
  bool diagonal = false, shared = false;
  KeyUnit bandwidth_key, latency_key;
  Rows bandwidth, latency;
};

/// A device has no inside, so at that level the diagonal is never used.
bool read_diagonal(const TomlTable& table, Level level) {
  const bool diagonal = table.boolean("diagonal", level != Level::device);
  if (diagonal && level == Level::device)
    throw table.error("diagonal", "can't be used where level = \"device\"; write false");
  return diagonal;
}

MatrixFile read_file(const TomlTable& table) {
  MatrixFile file;
  file.bandwidth_key = which_key(table, bandwidth_keys);
  file.latency_key = which_key(table, latency_keys);
  file.shared = table.boolean("shared", false);
  table.has("names");
  table.has("diagonal");
  file.level = read_level(table);
  file.diagonal = read_diagonal(table, file.level);
  file.bandwidth = table.matrix(file.bandwidth_key.key);
  file.latency = table.matrix(file.latency_key.key);
  table.reject_unknown();
  return file;
}

void check_size(const TomlTable& table, std::string_view key, const Rows& rows, std::size_t n) {
  if (rows.size() == n && rows.front().size() == n) return;
  const std::size_t columns = rows.empty() ? 0 : rows.front().size();
  throw table.error(key, "is " + std::to_string(rows.size()) + " x " + std::to_string(columns) +
                             "; the platform needs " + std::to_string(n) + " x " + std::to_string(n));
}

/// Regions are there for their matrix: either both or none.
void check_regions(const TomlTable& table, const Platform& platform, Level level) {
  const auto lacks = std::ranges::find_if(platform.sites, [](const Site& each) { return !each.region; });
  if (level == Level::region && lacks != platform.sites.end())
    throw table.error("level", "is \"region\", but site " + in_quotes(lacks->name) + " has no region");
}

/// Where the file names the rows, they are the groups in their order.
void check_names(const TomlTable& table, const Platform& platform, Level level) {
  if (!table.has("names")) return;
  const auto names = table.strings("names");
  const std::size_t n = num_groups(platform, level);
  if (names.size() != n)
    throw table.error("names", std::to_string(names.size()) + " names for " + std::to_string(n) + " rows");
  for (std::size_t i = 0; i < n; ++i)
    if (names[i] != group_name(platform, level, i))
      throw table.error("names", in_quotes(names[i]) + " is number " + std::to_string(i + 1) + " where the file has " +
                                     in_quotes(group_name(platform, level, i)));
}

/// Converts one entry; `convert` is to_bandwidth or to_latency.
template <class Convert>
auto entry(const TomlTable& table, KeyUnit key, double value, const std::string& pair, Convert convert) {
  try {
    return convert(value, key.unit);
  } catch (const std::invalid_argument& reason) {
    throw table.error(key.key, pair + ": " + reason.what());
  }
}

/// An unused entry is written 0, so that no number stands in a file without a meaning.
void check_unused(const TomlTable& table, const MatrixFile& file, std::size_t i, const std::string& pair) {
  for (const auto& [key, rows] :
       {std::pair(file.bandwidth_key.key, &file.bandwidth), {file.latency_key.key, &file.latency}})
    if ((*rows)[i][i] != 0)
      throw table.error(key, pair + ": the diagonal is not used here; write 0" +
                                 (file.level == Level::device ? "" : ", or set diagonal = true"));
}

}  // namespace

void read_matrix(const TomlTable& table, Platform& platform) {
  const MatrixFile file = read_file(table);
  check_regions(table, platform, file.level);
  const std::size_t n = num_groups(platform, file.level);
  check_size(table, file.bandwidth_key.key, file.bandwidth, n);
  check_size(table, file.latency_key.key, file.latency, n);
  check_names(table, platform, file.level);
  LinkMatrix matrix{file.level, {}};
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      const std::string pair = group_name(platform, file.level, from) + ">" + group_name(platform, file.level, to);
      if (from == to && !file.diagonal) {
        check_unused(table, file, from, pair);
        matrix.entries.push_back(std::nullopt);
        continue;
      }
      matrix.entries.push_back(LinkId(platform.links.size()));
      platform.links.push_back({pair, entry(table, file.bandwidth_key, file.bandwidth[from][to], pair, to_bandwidth),
                                entry(table, file.latency_key, file.latency[from][to], pair, to_latency), file.shared});
    }
  platform.matrix = std::move(matrix);
}

}  // namespace fusion
