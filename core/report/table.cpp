#include "core/report/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "core/base/error.h"

namespace fusion {
namespace {

constexpr std::string_view gap = "  ";

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(std::string_view text, std::size_t width, Align align) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return align == Align::left ? std::string(text) + space : space + std::string(text);
}

std::string_view escape_of(Emphasis emphasis) {
  switch (emphasis) {
    case Emphasis::strong:
      return "\033[1m";
    case Emphasis::faint:
      return "\033[2m";
    case Emphasis::none:
      break;
  }
  return "";
}

std::string without_trailing_space(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add(std::vector<std::string> cells, Emphasis emphasis) {
  check(cells.size() == columns_.size(), "a table row has one cell per column");
  rows_.push_back({std::move(cells), emphasis});
}

std::string Table::render(bool colour) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(width_of(columns_[c].title));
    for (const Row& row : rows_) widths[c] = std::max(widths[c], width_of(row.cells[c]));
  }
  const auto line = [&](auto cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      text += std::string(c > 0 ? gap : "") + padded(cell_of(c), widths[c], columns_[c].align);
    return without_trailing_space(std::move(text));
  };
  std::string text = line([&](std::size_t c) { return std::string_view(columns_[c].title); }) + "\n";
  text += line([&](std::size_t c) { return std::string(widths[c], '-'); }) + "\n";
  for (const Row& row : rows_) {
    const bool styled = colour && row.emphasis != Emphasis::none;
    const std::string cells = line([&](std::size_t c) { return std::string_view(row.cells[c]); });
    text += (styled ? std::string(escape_of(row.emphasis)) + cells + "\033[0m" : cells) + "\n";
  }
  return text;
}

std::string significant(double value, int digits) {
  const int magnitude = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", std::clamp(digits - 1 - magnitude, 0, 12), value);
  return buffer;
}

std::string percent(double fraction) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.0f %%", 100 * fraction);
  return buffer;
}

}  // namespace fusion
