// The last word on a placement: compression as asked for, real memory, and the planner's objective, predict().
#pragma once

#include <vector>

#include "core/plan/policies.h"

namespace fusion {

struct Judged {
  std::vector<Stage> stages;
  Seconds iteration{};
  Bytes missing{};  ///< memory that devices lack, in all; zero where the placement fits
  bool fits() const { return missing == Bytes(0); }
};

Judged judge(const PolicyInput&, std::vector<Stage>);

/// A placement that fits beats one that does not; then the shorter iteration, then fewer devices. Where neither fits,
/// the one that misses less.
bool better(const Judged&, const Judged&);

}  // namespace fusion
