// A program as the longest path sees it: who follows what, and which task waits for which other one.
//
// A *walker* follows a list: each device its computations, each *lane* its messages. A lane is a channel, or with
// one_send all channels of a device. A *wait* is an edge from a task to one that is done by another walker; what a
// device did before, in the order of its list, needs none.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/engine/message_lists.h"
#include "core/engine/pending_times.h"
#include "core/platform/platform.h"

namespace fusion {

struct WalkGraph {
  struct Node {
    double work_s = 0;     ///< of a computation; of a send, while it is in the channel
    double latency_s = 0;  ///< of a send, after that
    std::uint32_t walker = 0;
    std::uint32_t channel = 0;  ///< of a send
    std::uint32_t match = 0;    ///< task: the recv of a send
    std::uint32_t first_in = 0,
                  first_out = 0;  ///< its waits, and those for it; the ranges end where the next node's begin
  };

  std::uint32_t num_devices = 0;
  std::size_t num_channels = 0;
  std::vector<Node> nodes;           ///< by task, and one more
  std::vector<std::uint32_t> out;    ///< waits, by the task that they wait for
  std::vector<std::uint32_t> waits;  ///< by wait: the walker that waits
  std::vector<StepList> lists;       ///< by walker
};

WalkGraph walk_graph(const Program&, const Platform&, bool one_send);

/// An edge for each wait, as before the start.
PendingTimes pending_times(const Program&, const WalkGraph&);

}  // namespace fusion
