// What one micro-batch puts on the network: a message per cut tensor and direction, and the resources they occupy.
//
// Two kinds of resource can become the bottleneck: a *channel*, since the messages from one device to another travel
// one at a time, and a *shared link*, whose bandwidth is divided among all that cross it. A link that is not shared
// gives every message its full bandwidth, so the channel already says what it takes. Latency delays a message but
// occupies nothing: the next message of the channel starts while it passes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/plan/schedule.h"

namespace fusion {

/// A directed cut edge.
struct Message {
  std::size_t edge = 0;   ///< Schedule::edges
  bool gradient = false;  ///< it goes from the edge's `to` back to its `from`
  StageId from, to;       ///< of the message
  Bytes dense{}, wire{};
};

/// Whether an edge joins two stages of one device: nothing travels.
bool is_hand_over(const Schedule&, const CutEdge&);

/// The activation and, where the tensor has one, the gradient of every edge that leaves its device, in the edges'
/// order.
std::vector<Message> messages(const Schedule&, const Graph&);
Message message(const Schedule&, const Graph&, std::size_t edge, bool gradient);

struct ChannelBetween {
  StageId from, to;
};

struct Resource {
  std::variant<ChannelBetween, LinkId> what;
  BytesPerSecond bandwidth{};
  Seconds latency{};     ///< of a channel's route
  Bytes load{};          ///< wire bytes per micro-batch …
  Bytes forward_load{};  ///< … and those of activations among them
  Seconds busy() const { return load / bandwidth; }
  Seconds forward_busy() const { return forward_load / bandwidth; }
  Seconds backward_busy() const { return (load - forward_load) / bandwidth; }
};

struct Traffic {
  std::vector<Message> messages;
  std::vector<Resource> resources;   ///< every message's first resource is its channel
  std::vector<std::size_t> crossed;  ///< resources of all messages, one after the other …
  std::vector<std::size_t> first;    ///< … those of message i from first[i] to first[i + 1]

  std::span<const std::size_t> resources_of(std::size_t message) const {
    return std::span(crossed).subspan(first[message], first[message + 1] - first[message]);
  }
};

/// Precondition: the edges are sorted by (from, to, tensor), as `cut_edges` leaves them, or the messages are by
/// (from, to). Channels come in that order. Time and memory grow with the messages and the platform's links, not with
/// the ops.
Traffic traffic(const Schedule&, const Graph&, const Platform&);
Traffic traffic(const Schedule&, const Platform&, std::vector<Message>);

/// "a0 -> b0", "link A.uplink"
std::string describe(const Resource&, const Schedule&, const Platform&);

}  // namespace fusion
