// What the network between the ranks of this run gives: latency and bandwidth of every directed pair, as a platform.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/platform/import_export.h"
#include "exec/transport.h"

namespace fusion::exec {

struct ProbeOptions {
  int round_trips = 20;       ///< of a pair, for its latency
  Seconds long_enough{0.25};  ///< messages grow until one takes so long …
  Bytes largest{64 << 20};    ///< … or is so large
  int repeats = 3;            ///< of that one
};

struct ProbedLink {
  int from = 0, to = 0;
  Seconds latency{};           ///< half the shortest round trip of an empty message
  BytesPerSecond bandwidth{};  ///< of the longest message: bytes / (median time - round trip)
};

/// What rank 0 gets; the other ranks get nothing.
struct ProbeResult {
  std::vector<std::string> names;  ///< by rank: "HOST-rank0"
  std::vector<ProbedLink> links;   ///< by (from, to)
};

/// Collective. One pair at a time, each warmed up first. Throws PeerLost.
ProbeResult probe(Transport&, const ProbeOptions& = {});

/// A platform file that load_platform reads: a device per rank, a matrix of all pairs.
std::string probe_platform(const ProbeResult&, const ImportOptions&);

}  // namespace fusion::exec
