#include "exec/dropout.h"

#include <cmath>

#include "core/base/error.h"
#include "exec/data_order.h"

namespace fusion::exec {

std::vector<float> dropout_mask(const RunSeed& run, int micro_batch, OpId op, double rate, std::size_t elements) {
  check(rate >= 0 && rate < 1, "dropout keeps something");
  std::uint64_t key = mixed(run.seed, static_cast<std::uint64_t>(run.step));
  key = mixed(mixed(key, static_cast<std::uint64_t>(micro_batch)), op.value);
  const auto kept = static_cast<float>(1 / (1 - rate));
  const auto threshold = static_cast<std::uint64_t>(std::ldexp(rate, 32));  // of 2^32 equally likely draws, the zeros
  std::vector<float> mask(elements);
  for (std::size_t i = 0; i < elements; i += 2) {
    const std::uint64_t bits = mixed(key, i);
    mask[i] = (bits & 0xffff'ffff) < threshold ? 0.0F : kept;
    if (i + 1 < elements) mask[i + 1] = bits >> 32 < threshold ? 0.0F : kept;
  }
  return mask;
}

}  // namespace fusion::exec
