// Times that somebody still waits for. An *edge* joins a task to one that waits for it; it holds the times of the
// instances that are done and not yet taken, usually one or two, at most as many as are in flight. So an engine's
// memory follows what is live and not the length of a program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/engine/growing_time.h"

namespace fusion {

/// What an edge holds: a window of instances, numbered by micro-batch. A *gathering* edge waits for all instances of a
/// task, and keeps the latest alone.
struct PendingEdge {
  static constexpr double unknown_s = std::numeric_limits<double>::infinity();
  static constexpr double taken_s = -std::numeric_limits<double>::infinity();
  static constexpr std::uint8_t no_buffer = 0xff;

  Time front{unknown_s, 0};  ///< of instance `low`, or the latest
  std::uint32_t low = 0;     ///< the first one that has not been taken
  std::uint32_t size = 0;    ///< from `low` to the last one that is done; gathering: how many are not done
  std::uint32_t head = 0;    ///< in the buffer, which holds what comes after the front
  std::uint32_t buffer = 0;
  std::uint8_t log_capacity = no_buffer;
  bool gathers = false;
};

class PendingTimes {
 public:
  explicit PendingTimes(std::size_t num_edges) : edges_(num_edges) { free_.fill(no_piece); }

  std::size_t num_edges() const { return edges_.size(); }
  std::size_t memory() const { return edges_.size() * sizeof(PendingEdge) + buffer_.size() * sizeof(Time); }
  PendingEdge& operator[](std::size_t edge) { return edges_[edge]; }
  void gather(std::size_t edge, std::uint32_t instances) {
    edges_[edge].gathers = true;
    edges_[edge].front = {};
    edges_[edge].size = instances;
  }

  /// The time of an instance; its `at_s` is `unknown_s` while it is not done. Precondition: not taken yet.
  Time peek(std::size_t edge, std::uint32_t instance) const {
    const PendingEdge& e = edges_[edge];
    const std::uint32_t i = instance - e.low;
    if (i == 0) return e.front;
    return i < e.size ? buffer_[place(e, i)] : Time{PendingEdge::unknown_s, 0};
  }

  void put(std::size_t edge, std::uint32_t instance, Time time) {
    PendingEdge& e = edges_[edge];
    const std::uint32_t i = instance - e.low;
    if (i == 0) {
      e.front = time;
      if (e.size == 0) e.size = 1;
      return;
    }
    put_behind(e, i, time);
  }

  void take(std::size_t edge, std::uint32_t instance) {
    PendingEdge& e = edges_[edge];
    if (instance != e.low) {
      buffer_[place(e, instance - e.low)].at_s = PendingEdge::taken_s;
      return;
    }
    do pop(e);
    while (e.front.at_s == PendingEdge::taken_s);
  }

  /// Calls `visit(Time&)` for each time that the edge holds, also for the unknown or taken ones among them.
  template <class Visit>
  void for_each(PendingEdge& e, Visit visit) {
    visit(e.front);
    if (e.gathers) return;
    for (std::uint32_t i = 1; i < e.size; ++i) visit(buffer_[place(e, i)]);
  }

 private:
  std::size_t place(const PendingEdge& e, std::uint32_t i) const {
    return e.buffer + ((e.head + i - 1) & ((std::uint32_t{1} << e.log_capacity) - 1));
  }
  void put_behind(PendingEdge&, std::uint32_t i, Time);
  void grow(PendingEdge&, std::uint32_t capacity);
  void pop(PendingEdge&);
  std::uint32_t allocate(std::uint8_t log_capacity);
  void release(PendingEdge& e) {
    buffer_[e.buffer].at_s = std::exchange(free_[e.log_capacity], e.buffer);
    e.log_capacity = PendingEdge::no_buffer;
  }

  std::vector<PendingEdge> edges_;
  std::vector<Time> buffer_;  ///< of all edges, in pieces of a power of two
  static constexpr std::uint32_t no_piece = std::numeric_limits<std::uint32_t>::max();
  /// Free pieces by the logarithm of their size: the first; each holds the next one in its first time.
  std::array<std::uint32_t, 32> free_{};
};

inline void PendingTimes::pop(PendingEdge& e) {
  ++e.low;
  if (--e.size == 0) {
    e.front = {PendingEdge::unknown_s, 0};
    return;
  }
  e.front = buffer_[place(e, 1)];
  ++e.head;
  if (e.size == 1) release(e);
}

}  // namespace fusion
