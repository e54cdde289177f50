// Rotary positions of attention, the same numbers in every framework.
#pragma once

#include <cstdint>
#include <vector>

namespace fusion::exec {

/// Cosine and sine of the angle t base^(-2 i / features) by which pair i is turned at position t: [T, features / 2]
/// each. Su et al. 2021 (RoFormer), equation 15; as in Llama's checkpoints, pair i is features i and i + features / 2.
struct RotaryTable {
  std::vector<float> cosine, sine;
};
RotaryTable rotary_table(std::int64_t tokens, std::int64_t features, double base);

}  // namespace fusion::exec
