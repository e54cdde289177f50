// Ranks that are threads of one process: for tests, and for runs on one machine without a launcher.
#pragma once

#include <memory>
#include <vector>

#include "exec/transport.h"

namespace fusion::exec {

/// One transport per rank, each for a thread of its own; their clocks start now, together. `shapes` is empty, or says
/// what link each pair pretends to have: a message is there for its receiver exactly when that link would have
/// delivered it. Transports may be destroyed in any order, each by one thread.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int num_ranks, const LinkShapes& shapes = {});

/// For tests. The rank is gone as after kill -9: every wait of its peers throws PeerLost. Its own next call throws
/// RuntimeFault, so that its thread ends.
void kill_rank(Transport&);
/// As after kill -STOP: the rank falls silent, and its peers' waits throw when their deadline has passed.
void freeze_rank(Transport&);

}  // namespace fusion::exec
