// How long whole passes of a network take the way a rank makes them.
#pragma once

#include "exec/profile.h"

namespace fusion::exec {

/// Medians over steps, of a mean over their micro-batches.
struct PassProfile {
  Seconds forward{}, backward{};  ///< of one micro-batch through the whole network
  BytesPerSecond update{};        ///< of an Adam step, as profile_update() counts its traffic
};

/// Training steps of one rank that holds the whole network: four micro-batches forward, then backward, then the
/// update, so that each pass finds the caches and the allocator as it does in a run. Before each pass it sleeps for
/// `wait`, as a rank of a pipeline does until its message arrives. Takes the memory of training the network.
PassProfile profile_passes(const Graph&, const BackendRow&, const ProfileOptions&, Seconds wait);

/// The ops with their times scaled so that they add up to those passes.
std::vector<OpProfile> scaled_to(std::vector<OpProfile>, const PassProfile&);

}  // namespace fusion::exec
