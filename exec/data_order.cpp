#include "exec/data_order.h"

#include <bit>

namespace fusion::exec {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto finalized = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  return finalized(finalized(a) ^ b);
}

std::uint64_t shuffled(std::uint64_t position, std::uint64_t n, std::uint64_t key) {
  const auto half = static_cast<int>((std::bit_width(n - 1) + 1) / 2);
  constexpr std::uint64_t num_rounds = 8;  // with four, few samples come out of some places more often
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = position >> half, right = position & mask;
    for (std::uint64_t round = 0; round < num_rounds; ++round) {
      const std::uint64_t swapped = left ^ (mixed(key + round, right) & mask);
      left = right;
      right = swapped;
    }
    position = left << half | right;
  } while (position >= n);
  return position;
}

}  // namespace fusion::exec
