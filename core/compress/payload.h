// Reading and writing the flat numbers of payloads, and seeded randomness by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace fusion::compress {

template <class T>
std::span<const std::byte> as_bytes(std::span<const T> values) {
  return std::as_bytes(values);
}

template <class T>
void append(std::vector<std::byte>& out, std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = std::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
}
template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  append(out, std::span<const T>(&value, 1));
}

/// Takes values off the front of hostile bytes.
class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> bytes) : left_(bytes) {}

  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > left_.size()) throw RuntimeFault("coded tensor: it ends too early");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  template <class T>
  T one() {
    T value;
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <class T>
  void fill(std::span<T> values) {
    const auto from = bytes(values.size_bytes());
    if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
  }
  void finish() const {
    if (!left_.empty()) throw RuntimeFault("coded tensor: it goes on after its end");
  }

 private:
  std::span<const std::byte> left_;
};

/// splitmix64's finaliser: a good hash of a counter.
inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Numbers by position: the same on every machine, in any order.
struct PositionalRandom {
  std::uint64_t key;
  PositionalRandom(std::uint64_t seed, std::uint64_t step) : key(mix(mix(seed) ^ step)) {}
  std::uint64_t bits(std::uint64_t i) const { return mix(key + i * 0xd1342543de82ef95u); }
  /// In [0, 1), 24 bits.
  float uniform(std::uint64_t i) const { return static_cast<float>(bits(i) >> 40) * 0x1p-24f; }
};

}  // namespace fusion::compress
