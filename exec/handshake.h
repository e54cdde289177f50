// Before anything is sent that only some could read: do all ranks run the same thing?
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/program/program.h"
#include "exec/transport.h"

namespace fusion::exec {

/// What must be the same on all ranks, in the order in which a difference is told.
struct Identity {
  std::string protocol;  ///< of the messages
  std::string build;     ///< version of the program
  std::string ranks;     ///< of the program
  std::string dtype;
  std::string model_hash, program_hash;
  bool operator==(const Identity&) const = default;
};
Identity identity_of(const Program&, const Graph&);

/// XXH3-64 in hexadecimal of all that decides what is executed and sent. Estimates (durations, memory) are left out:
/// machines may round them differently.
std::string program_hash(const Program&);
/// The same of ops, attributes, tensors and parameters with their names and shapes.
std::string model_hash(const Graph&);
/// The same but for the micro-batch: what a checkpoint belongs to.
std::string network_hash(const Graph&);

/// Collective, and the first thing that ranks say. Where any two differ, or there are not as many ranks as the program
/// wants, all of them throw the same InputError, which names both sides and both values. Throws PeerLost.
void handshake(Transport&, const Identity&);

}  // namespace fusion::exec
