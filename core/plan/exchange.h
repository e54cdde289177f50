// Which parameters several stages hold, so that their gradients have to be added up at the end of an iteration: tied
// ones within a replica, and every one where there are replicas.
#pragma once

#include <vector>

#include "core/plan/schedule.h"
#include "core/program/collective.h"

namespace fusion {

/// Parameters with the same stages, one bucket. Stages of one device share a parameter and its gradient, so the members
/// of the all-reduce are the devices.
struct Exchange {
  std::vector<StageId> stages;  ///< all that use the parameters, ascending
  std::vector<StageId> first;   ///< by member: the first of its stages
  Bucket bucket;
};

/// Those with two members or more, in the order in which every device takes them: first what is ready first, as
/// backward comes to the last stages first. O(parameters x stages) with replicas, else of tied parameters.
std::vector<Exchange> exchanges(const Schedule&, const Graph&);

/// What travels: the schedule's collective on the exchange's devices.
Group group_of(const Exchange&, const Schedule&, const Platform&);
std::vector<Transfer> transfers(const Exchange&, const Schedule&, const Platform&);

}  // namespace fusion
