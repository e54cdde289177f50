// The plain read pass that the kernels' times are measured against: sum |x|.
#pragma once

#include <cstdint>

namespace fusion::exec {

/// `sums` receives a partial sum per block; there are at most 4096.
void read_pass(const float* x, std::uint64_t n, float* sums);

}  // namespace fusion::exec
