// Tensors that the checker gives to GPU and CPU alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fusion::exec {

struct Case {
  std::string_view name;
  float (*element)(std::uint64_t i, std::uint64_t n);
};

/// Gaussian, clustered in one place, many ties, constant, mostly zero, subnormal.
std::span<const Case> cases();

/// Every element follows from its index, so that a size is filled by several threads and always alike.
std::vector<float> make_tensor(const Case&, std::uint64_t n);

}  // namespace fusion::exec
