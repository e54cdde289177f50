#include "core/base/units.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>

#include "core/base/error.h"

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
  throw std::invalid_argument(in_quotes(text) + " " + std::string(why) + "; write it like \"" + std::string(example) +
                              '"');
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

/// What a parser accepts. The bounds are far outside any real network or machine, and keep quotients finite.
struct Measure {
  std::span<const Unit> units;
  double smallest, largest;  ///< in base units; zero passes as well where `zero` says so
  std::string_view range;    ///< the bounds in words
  std::string_view example;
  bool zero = false;
  bool any_case = false;
};

constexpr Measure bandwidth_measure = {bandwidth_units, 1.0 / 8, 1e18 / 8, "1 bps to 1e6 Tbps", "100 Mbps"};
constexpr Measure time_measure = {time_units, 1e-15, 1e9, "1e-6 ns to 1e9 s", "50 ms", true};
constexpr Measure latency_measure = {time_units, 1e-15, 1e9, "1e-6 ns to 1e9 s", "50 ms"};
constexpr Measure size_measure = {size_units, 1, 9e18, "1 B to 9e6 TB", "24 GiB"};  // below 2^63, the range of Bytes
constexpr Measure speed_measure = {speed_units, 1, 1e21, "1 FLOP/s to 1e6 PFLOP/s", "82.6 TFLOP/s", false, true};

/// `number` of `unit_name` in base units; `text` is what the messages quote.
double convert(double number, std::string_view unit_name, std::string_view text, const Measure& measure) {
  if (!std::isfinite(number)) reject(text, "is not finite", measure.example);
  if (unit_name.empty()) reject(text, "has no unit", measure.example);
  const Unit* unit = find_unit(unit_name, measure.units, measure.any_case);
  if (unit == nullptr) reject(text, "has the unknown unit " + in_quotes(unit_name), measure.example);
  const double value = number * unit->factor;
  if (value < 0) reject(text, "is negative", measure.example);
  if (number == 0 && measure.zero) return 0;
  if (number == 0) reject(text, "must be above zero", measure.example);
  constexpr double rounding = 1e-12;
  if (value < measure.smallest * (1 - rounding) || value > measure.largest * (1 + rounding))
    reject(text, "is out of range (" + std::string(measure.range) + ")", measure.example);
  return value;
}

double parse(std::string_view text, const Measure& measure) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (error == std::errc::result_out_of_range) reject(text, "is out of range", measure.example);
  if (error != std::errc{}) reject(text, "is not a number with a unit", measure.example);
  return convert(number, trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data()))), text, measure);
}

/// `number unit` as a person would write it, for messages.
std::string written(double number, std::string_view unit) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return std::string(digits.data(), end) + " " + std::string(unit);
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
  constexpr double longest = 1e7;  // beyond it digits say less than an exponent
  const bool plain = std::abs(scaled) < longest;
  std::snprintf(buffer.data(), buffer.size(), plain ? "%.*f %.*s" : "%.*e %.*s", plain ? decimals : 2, scaled,
                static_cast<int>(best->name.size()), best->name.data());
  return buffer.data();
}

}  // namespace

BytesPerSecond parse_bandwidth(std::string_view text) { return BytesPerSecond(parse(text, bandwidth_measure)); }

Seconds parse_seconds(std::string_view text) { return Seconds(parse(text, time_measure)); }

Seconds parse_latency(std::string_view text) { return Seconds(parse(text, latency_measure)); }

Bytes parse_bytes(std::string_view text) {
  return Bytes(static_cast<std::int64_t>(std::llround(parse(text, size_measure))));
}

FlopsPerSecond parse_flops_per_second(std::string_view text) { return FlopsPerSecond(parse(text, speed_measure)); }

BytesPerSecond to_bandwidth(double number, std::string_view unit) {
  return BytesPerSecond(convert(number, unit, written(number, unit), bandwidth_measure));
}

Seconds to_seconds(double number, std::string_view unit) {
  return Seconds(convert(number, unit, written(number, unit), time_measure));
}

Seconds to_latency(double number, std::string_view unit) {
  return Seconds(convert(number, unit, written(number, unit), latency_measure));
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
