// Physical quantities as strong types, and the one place that reads and writes them as text.
//
// Only meaningful operators exist: Bytes / BytesPerSecond is Seconds, Bytes + Seconds does not compile.
// Bits against bytes and M (10^6) against Mi (2^20) are decided in units.cpp and nowhere else:
//   bandwidth  "8 Mbps" is 8e6 bits/s; "1 MB/s" is 1e6 bytes/s; "1 MiB/s" is 2^20 bytes/s
//   size       "24 GB" is 24e9 bytes; "24 GiB" is 24 * 2^30 bytes
//   time       "50 ms", "10 us", "2 s"
//   speed      "82.6 TFLOP/s", "1 Gflop/s"
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace fusion {

/// A number with a dimension. `Rep` is double, or int64_t where the quantity is a count.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;  ///< a count of floating-point operations
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(static_cast<double>(b.value) / r.value); }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value / r.value); }

/// The parsers throw std::invalid_argument whose text says what is wrong and shows a right example; callers that
/// know the file and key turn it into an InputError. They accept plausible values only: 1 bps to 1e6 Tbps, 0 or
/// 1e-6 ns to 1e9 s, 1 B to 9e6 TB, 1 FLOP/s to 1e6 PFLOP/s. A latency is a time above 0: a link without one is more
/// often a mistake than a fact.
BytesPerSecond parse_bandwidth(std::string_view text);
Seconds parse_seconds(std::string_view text);
Seconds parse_latency(std::string_view text);
Bytes parse_bytes(std::string_view text);
FlopsPerSecond parse_flops_per_second(std::string_view text);

/// The same for a number whose unit stands elsewhere, in a key or a column: to_bandwidth(1.5, "Gbps").
BytesPerSecond to_bandwidth(double number, std::string_view unit);
Seconds to_seconds(double number, std::string_view unit);
Seconds to_latency(double number, std::string_view unit);

/// Short human forms, three significant digits: "8 Mbps", "1.25 ms", "3.2 GiB", "82.6 TFLOP/s", "875 GFLOP".
std::string format(BytesPerSecond);
std::string format(Seconds);
std::string format(Bytes);
std::string format(FlopsPerSecond);
std::string format(Flops);

}  // namespace fusion
