// Which samples a micro-batch gets: a seeded permutation per epoch that needs no memory and no history.
#pragma once

#include <cstdint>

namespace fusion::exec {

/// A hash of two numbers (the finalizer of SplitMix64, Steele et al. 2014, over both).
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

/// Where `position` of 0..n-1 goes under the permutation that `key` names: a Feistel network of eight rounds over the
/// least even number of bits that holds n, walked again until it falls below n (Black & Rogaway 2002).
std::uint64_t shuffled(std::uint64_t position, std::uint64_t n, std::uint64_t key);

}  // namespace fusion::exec
