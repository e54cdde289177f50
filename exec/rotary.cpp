#include "exec/rotary.h"

#include <cmath>

namespace fusion::exec {

RotaryTable rotary_table(std::int64_t tokens, std::int64_t features, double base) {
  RotaryTable table;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < features / 2; ++i) {
      const double exponent = -2 * static_cast<double>(i) / static_cast<double>(features);
      const double angle = static_cast<double>(t) * std::pow(base, exponent);
      table.cosine.push_back(static_cast<float>(std::cos(angle)));
      table.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

}  // namespace fusion::exec
