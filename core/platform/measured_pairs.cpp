#include "core/platform/measured_pairs.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/platform/names.h"
#include "core/platform/toml_text.h"

namespace fusion {
namespace {

using Place = std::pair<std::size_t, std::size_t>;

/// The pairs by the places of their ends.
struct Square {
  std::vector<std::string> names;
  std::map<Place, const MeasuredPair*> entries;
  bool diagonal = false;
};

std::size_t place_of(std::map<std::string, std::size_t>& places, Square& square, const MeasuredPair& pair,
                     const std::string& name, std::string_view key) {
  if (!is_name(name)) throw InputError(pair.file, key, not_a_name(name), pair.line);
  const auto [found, is_new] = places.try_emplace(name, square.names.size());
  if (is_new) square.names.push_back(name);
  return found->second;
}

Square arrange(std::span<const MeasuredPair> pairs) {
  Square square;
  std::map<std::string, std::size_t> places;
  for (const auto& pair : pairs) {
    const std::size_t from = place_of(places, square, pair, pair.from, "from");
    const std::size_t to = place_of(places, square, pair, pair.to, "to");
    if (!square.entries.emplace(Place(from, to), &pair).second)
      throw InputError(pair.file, "to", in_quotes(pair.from + ">" + pair.to) + " is measured twice", pair.line);
    square.diagonal |= from == to;
  }
  return square;
}

void check_complete(const Square& square, const std::string& file) {
  const std::size_t n = square.names.size();
  if (n < 2) throw InputError(file, "", "measures no pair of two ends");
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      if ((from == to && !square.diagonal) || square.entries.contains({from, to})) continue;
      const std::string pair = in_quotes(square.names[from] + ">" + square.names[to]);
      throw InputError(file, "",
                       pair + (from == to ? " is not measured, others with themselves are; measure all or none"
                                          : " is not measured; each direction needs its own"));
    }
}

template <class Value>
std::string rows(const Square& square, Value value) {
  std::string text = "[\n";
  for (std::size_t from = 0; from < square.names.size(); ++from) {
    text += "  [";
    for (std::size_t to = 0; to < square.names.size(); ++to) {
      const auto found = square.entries.find({from, to});
      text += (to > 0 ? ", " : "") + (found == square.entries.end() ? "0" : decimal(value(*found->second)));
    }
    text += "],\n";
  }
  return text + "]\n";
}

}  // namespace

std::string platform_text(std::span<const MeasuredPair> pairs, const ImportOptions& options) {
  if (!is_name(options.name)) throw InputError("", "name", not_a_name(options.name));
  find_gpu(options.gpu);
  const Square square = arrange(pairs);
  check_complete(square, pairs.empty() ? "" : pairs.front().file);

  std::string text =
      "# Imported from measurements of directed pairs. The measurement does not say which GPUs there are: edit them.\n";
  text += "name = " + toml_string(options.name) + "\n";
  text += "description = \"Imported: " + std::to_string(square.names.size()) + " ends, all pairs measured\"\n";
  std::string names;
  for (const auto& name : square.names) {
    text += "\n[[site]]\nname = " + toml_string(name) + "\n[[site.host]]\nname = " + toml_string(name) +
            "\ngpu = " + toml_string(options.gpu) + "\n";
    names += (names.empty() ? "" : ", ") + toml_string(name);
  }
  text += "\n[matrix]  # a row sends, a column receives\nlevel = \"site\"\nnames = [" + names + "]\n";
  text += square.diagonal ? "diagonal = true   # what two devices of one site get\n"
                          : "diagonal = false  # nothing was measured inside a site\n";
  text += "shared = false    # what each pair gets by itself\n";
  text += "bandwidth_mbps = " + rows(square, [](auto& pair) { return pair.bandwidth.value * 8 / 1e6; });
  text += "latency_ms = " + rows(square, [](auto& pair) { return pair.latency.value * 1e3; });
  return text;
}

}  // namespace fusion
