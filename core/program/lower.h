// Schedule to Program, and the proof that the Program can finish.
#pragma once

#include <string>

#include "core/plan/stage_costs.h"
#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

/// Lowers a valid schedule. Parameters that live on two or more devices, tied ones and those of replicas, get their
/// gradients added up by the schedule's collective (`exchange` tasks, collective.h), each bucket as soon as the last
/// backward of the stages that hold it is done; the copies stay bit-equal. Then every stage updates. Two stages of one
/// device hand over without a message and hold what they share once.
Program lower(const Schedule&, const Graph&, const Costs&, const Platform&);

/// How a send behaves when its receive is not there yet.
enum class Sends {
  buffered,   ///< it goes on: what our runners do
  rendezvous  ///< it waits in the device's list order, and so does a recv: plain blocking MPI
};

/// Throws InputError when the program can't finish or is malformed: a send without its receive (or two), sizes that
/// differ, a task outside its device, a step missing or twice, no work at all, or a cycle, which is printed step by
/// step: "r0 send F1 -> r1 send F0 -> r0 send F1". `source` names the program in the message.
void validate(const Program&, const Platform&, Sends, const std::string& source);

}  // namespace fusion
