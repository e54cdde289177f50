// Schedule to Program, and the proof that the Program can finish.
#pragma once

#include <string>

#include "core/plan/stage_costs.h"
#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

/// Lowers a valid schedule. Tied parameters that live on two or more devices get their gradients exchanged (`exchange`
/// tasks: every holder sends its own to every other and adds all of them in stage order, so that the copies stay
/// bit-equal), then every stage updates. Two stages of one device hand over without a message and hold what they share
/// once.
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
