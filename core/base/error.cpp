#include "core/base/error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace fusion {
namespace {

/// Control characters as C escapes, so that a message stays on its line and can't drive a terminal.
std::string escaped(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out;
}

std::string located(std::string_view file, std::string_view key, std::string_view message, int line) {
  std::string text(file);
  if (line > 0) text += ":" + std::to_string(line);
  if (!key.empty()) text += (text.empty() ? "" : ": ") + std::string(key);
  if (!text.empty()) text += ": ";
  return escaped(text.append(message));
}

/// Levenshtein distance, one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string quoted_list(std::span<const std::string_view> names, std::string_view last_word) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? std::string(last_word) : ", ";
    text += in_quotes(names[i]);
  }
  return text;
}

}  // namespace

InputError::InputError(std::string_view file, std::string_view key, std::string_view message, int line)
    : std::runtime_error(located(file, key, message, line)) {}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  if (text.size() <= longest) return '"' + escaped(text) + '"';
  std::size_t kept = longest;
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xc0) == 0x80) --kept;  // whole UTF-8 characters only
  return '"' + escaped(text.substr(0, kept)) + "...\" (" + std::to_string(text.size()) + " characters)";
}

std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> valid) {
  constexpr std::size_t max_suggestions = 3, shortest_part = 3;
  if (name.empty()) return {};
  const std::size_t near = std::min(std::max<std::size_t>(2, name.size() / 3), name.size() - 1);
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const auto candidate : valid) {
    const bool is_part = name.size() >= shortest_part && candidate.find(name) != std::string_view::npos;
    if (!is_part && (candidate.size() > name.size() + near || name.size() > candidate.size() + near)) continue;
    const auto distance = edit_distance(name, candidate);
    if (is_part || distance <= near) ranked.emplace_back(distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](auto& a, auto& b) { return a.first < b.first; });
  if (ranked.size() > max_suggestions) ranked.resize(max_suggestions);
  std::vector<std::string_view> names;
  for (const auto& [distance, candidate] : ranked) names.push_back(candidate);
  return names;
}

std::string unknown_name(std::string_view name, std::span<const std::string_view> valid) {
  constexpr std::size_t short_list = 24;
  std::string text = in_quotes(name) + " is not known";
  if (const auto names = nearest_names(name, valid); !names.empty())
    return text + "; did you mean " + quoted_list(names, " or ") + "?";
  if (valid.empty() || valid.size() > short_list) return text;
  return text + "; valid: " + quoted_list(valid, ", ");
}

}  // namespace fusion
