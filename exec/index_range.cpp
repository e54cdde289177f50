#include "exec/index_range.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/graph/ops.h"

namespace fusion::exec {

void require_indices(const Op& op, std::span<const std::int64_t> values, std::int64_t bound) {
  const auto outside = std::ranges::find_if(values, [=](std::int64_t value) { return value < 0 || value >= bound; });
  if (outside == values.end()) return;
  throw RuntimeFault("op \"" + op.name + "\" [" + std::string(row_of(op.kind).name) + "]: " + std::to_string(*outside) +
                     " at place " + std::to_string(outside - values.begin()) + " of its indices is outside 0.." +
                     std::to_string(bound - 1));
}

}  // namespace fusion::exec
