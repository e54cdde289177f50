#include "core/engine/pending_times.h"

#include <bit>

namespace fusion {

void PendingTimes::put_behind(PendingEdge& e, std::uint32_t i, Time time) {
  if (e.log_capacity == PendingEdge::no_buffer || i > (std::uint32_t{1} << e.log_capacity)) grow(e, i);
  for (std::uint32_t hole = e.size; hole < i; ++hole)
    if (hole > 0) buffer_[place(e, hole)] = {PendingEdge::unknown_s, 0};
  if (i >= e.size) e.size = i + 1;
  buffer_[place(e, i)] = time;
}

void PendingTimes::grow(PendingEdge& e, std::uint32_t capacity) {
  PendingEdge larger = e;
  larger.log_capacity = static_cast<std::uint8_t>(std::bit_width(capacity - 1));
  larger.buffer = allocate(larger.log_capacity);
  larger.head = 0;
  for (std::uint32_t i = 1; i < e.size; ++i) buffer_[place(larger, i)] = buffer_[place(e, i)];
  if (e.log_capacity != PendingEdge::no_buffer) release(e);
  e = larger;
}

std::uint32_t PendingTimes::allocate(std::uint8_t log_capacity) {
  const std::uint32_t piece = free_[log_capacity];
  if (piece == no_piece) {
    const std::size_t at = buffer_.size();
    buffer_.resize(at + (std::size_t{1} << log_capacity));
    return static_cast<std::uint32_t>(at);
  }
  free_[log_capacity] = static_cast<std::uint32_t>(buffer_[piece].at_s);
  return piece;
}

}  // namespace fusion
