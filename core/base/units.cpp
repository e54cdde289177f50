#include "core/base/units.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>

namespace fusion {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kibi = 1024.0;
constexpr std::array bandwidth_units = {Unit{"bps", 1.0 / 8},
                                        Unit{"Kbps", 1e3 / 8},
                                        Unit{"kbps", 1e3 / 8},
                                        Unit{"Mbps", 1e6 / 8},
                                        Unit{"Gbps", 1e9 / 8},
                                        Unit{"Tbps", 1e12 / 8},
                                        Unit{"B/s", 1},
                                        Unit{"kB/s", 1e3},
                                        Unit{"MB/s", 1e6},
                                        Unit{"GB/s", 1e9},
                                        Unit{"TB/s", 1e12},
                                        Unit{"KiB/s", kibi},
                                        Unit{"MiB/s", kibi* kibi},
                                        Unit{"GiB/s", kibi* kibi* kibi}};
constexpr std::array time_units = {Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}, Unit{"ns", 1e-9}};
constexpr std::array size_units = {Unit{"B", 1},
                                   Unit{"kB", 1e3},
                                   Unit{"MB", 1e6},
                                   Unit{"GB", 1e9},
                                   Unit{"TB", 1e12},
                                   Unit{"KiB", kibi},
                                   Unit{"MiB", kibi* kibi},
                                   Unit{"GiB", kibi* kibi* kibi},
                                   Unit{"TiB", kibi* kibi* kibi* kibi}};
constexpr std::array speed_units = {Unit{"FLOP/s", 1},    Unit{"KFLOP/s", 1e3},  Unit{"MFLOP/s", 1e6},
                                    Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15}};

[[noreturn]] void reject(std::string_view text, std::string_view why, std::string_view example) {
  throw std::invalid_argument('"' + std::string(text) + "\" " + std::string(why) + "; write it like \"" +
                              std::string(example) + '"');
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

/// Case matters in "Mbps" against "MB/s", not in "Tflop/s": flop units alone are matched without it.
const Unit* find_unit(std::string_view name, std::span<const Unit> units, bool any_case) {
  for (const Unit& unit : units)
    if (unit.name == name || (any_case && same_ignoring_case(unit.name, name))) return &unit;
  return nullptr;
}

enum class Sign { positive, non_negative };

double parse(std::string_view text, std::span<const Unit> units, Sign sign, std::string_view example,
             bool any_case = false) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (error == std::errc::result_out_of_range) reject(text, "is out of range", example);
  if (error != std::errc{}) reject(text, "is not a number with a unit", example);
  const std::string_view name = trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data())));
  if (!std::isfinite(number)) reject(text, "is not finite", example);
  if (name.empty()) reject(text, "has no unit", example);
  const Unit* unit = find_unit(name, units, any_case);
  if (unit == nullptr) reject(text, "has the unknown unit \"" + std::string(name) + '"', example);
  const double value = number * unit->factor;
  if (!std::isfinite(value)) reject(text, "is out of range", example);
  if (value < 0) reject(text, "is negative", example);
  if (value == 0 && (sign == Sign::positive || number != 0)) reject(text, "must be above zero", example);
  return value;
}

/// Three significant digits of `value` in the largest unit of `units` (ascending) that leaves at least 1.
std::string format(double value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (std::abs(value) >= unit.factor * (1 - 5e-4)) best = &unit;
  std::array<char, 64> buffer{};
  const double scaled = value / best->factor;
  const int decimals = std::abs(scaled) >= 99.95 || scaled == std::floor(scaled) ? 0
                       : std::abs(scaled) >= 9.995                               ? 1
                                                                                 : 2;
  std::snprintf(buffer.data(), buffer.size(), "%.*f %.*s", decimals, scaled, static_cast<int>(best->name.size()),
                best->name.data());
  return buffer.data();
}

}  // namespace

BytesPerSecond parse_bandwidth(std::string_view text) {
  return BytesPerSecond(parse(text, bandwidth_units, Sign::positive, "100 Mbps"));
}

Seconds parse_seconds(std::string_view text) { return Seconds(parse(text, time_units, Sign::non_negative, "50 ms")); }

Bytes parse_bytes(std::string_view text) {
  constexpr std::string_view example = "24 GiB";
  constexpr double largest = 9e18;  // below 2^63, the range of Bytes
  const double value = parse(text, size_units, Sign::positive, example);
  if (value < 1) reject(text, "is less than one byte", example);
  if (value > largest) reject(text, "is out of range", example);
  return Bytes(static_cast<std::int64_t>(std::llround(value)));
}

FlopsPerSecond parse_flops_per_second(std::string_view text) {
  return FlopsPerSecond(parse(text, speed_units, Sign::positive, "82.6 TFLOP/s", true));
}

std::string format(BytesPerSecond rate) {
  constexpr std::array units = {Unit{"bps", 1.0 / 8}, Unit{"Kbps", 1e3 / 8}, Unit{"Mbps", 1e6 / 8},
                                Unit{"Gbps", 1e9 / 8}, Unit{"Tbps", 1e12 / 8}};
  return format(rate.value, units);
}

std::string format(Seconds time) {
  constexpr std::array units = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};
  return time.value == 0 ? "0 s" : format(time.value, units);
}

std::string format(Bytes size) {
  constexpr std::array units = {Unit{"B", 1}, Unit{"KiB", kibi}, Unit{"MiB", kibi * kibi},
                                Unit{"GiB", kibi * kibi * kibi}, Unit{"TiB", kibi * kibi * kibi * kibi}};
  return format(static_cast<double>(size.value), units);
}

std::string format(FlopsPerSecond speed) { return format(speed.value, speed_units); }

std::string format(Flops count) {
  constexpr std::array units = {Unit{"FLOP", 1},     Unit{"KFLOP", 1e3},  Unit{"MFLOP", 1e6}, Unit{"GFLOP", 1e9},
                                Unit{"TFLOP", 1e12}, Unit{"PFLOP", 1e15}, Unit{"EFLOP", 1e18}};
  return format(count.value, units);
}

}  // namespace fusion
