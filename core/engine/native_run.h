// The two loops of the native engine.
#pragma once

#include "core/engine/message_lists.h"
#include "core/engine/native.h"
#include "core/platform/platform.h"

namespace fusion {

/// Where no two messages compete for a link, a program is a graph whose longest path is its time: each device and each
/// channel is followed through its own list, and waits for the others' times. O(steps + dependencies), no event queue;
/// memory for what is in flight.
/// Precondition: no recv waits for anything but its message.
Measured run_unshared(const Program&, const Platform&, const NativeOptions&);

/// With shared links: an event loop with one timer per device and channel. Rates are solved anew only for the messages
/// that a start or an end can touch.
Measured run_shared(const Program&, const Platform&, bool sharing, bool timeline);

/// Time with a message on the way: the union of the spans from start to arrival, which come in the order of arrival.
struct BusyTime {
  double sum_s = 0, last_arrival_s = 0;
  void add(double start_s, double arrival_s) {
    sum_s += arrival_s - (start_s > last_arrival_s ? start_s : last_arrival_s);
    last_arrival_s = arrival_s;
  }
};

}  // namespace fusion
