// A heap of timers with a fixed number of slots, each set at most once at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace fusion {

class Timers {
 public:
  explicit Timers(std::size_t num_slots) : place_(num_slots, none_) {}

  bool empty() const { return heap_.empty(); }
  double next_s() const { return heap_.front().time_s; }

  /// Sets a slot, or moves it.
  void set(std::uint32_t slot, double time_s) {
    if (place_[slot] == none_) {
      heap_.push_back({time_s, slot});
      rise(heap_.size() - 1, {time_s, slot});
      return;
    }
    const std::size_t at = place_[slot];
    time_s < heap_[at].time_s ? rise(at, {time_s, slot}) : sink(at, {time_s, slot});
  }

  /// Precondition: not empty.
  std::uint32_t pop() {
    const std::uint32_t slot = heap_.front().slot;
    place_[slot] = none_;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
    return slot;
  }

 private:
  static constexpr std::uint32_t none_ = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t fan_out_ = 4;  ///< four children share a cache line

  struct Entry {
    double time_s;
    std::uint32_t slot;
    bool operator<(const Entry& o) const { return time_s != o.time_s ? time_s < o.time_s : slot < o.slot; }
  };

  void put(std::size_t at, Entry entry) {
    heap_[at] = entry;
    place_[entry.slot] = static_cast<std::uint32_t>(at);
  }

  void rise(std::size_t at, Entry entry) {
    for (; at > 0; at = (at - 1) / fan_out_) {
      const std::size_t parent = (at - 1) / fan_out_;
      if (!(entry < heap_[parent])) break;
      put(at, heap_[parent]);
    }
    put(at, entry);
  }

  void sink(std::size_t at, Entry entry) {
    while (true) {
      const std::size_t first = at * fan_out_ + 1, end = std::min(first + fan_out_, heap_.size());
      if (first >= end) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child)
        if (heap_[child] < heap_[least]) least = child;
      if (!(heap_[least] < entry)) break;
      put(at, heap_[least]);
      at = least;
    }
    put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  ///< by slot
};

}  // namespace fusion
