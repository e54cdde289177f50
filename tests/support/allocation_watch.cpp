#include "tests/support/allocation_watch.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t largest = 0;
}

// In a source of its own, or the compiler inlines one of a pair and warns of a mismatch. All forms for single objects,
// or the sanitizer's own would meet these.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  largest = std::max(largest, bytes);
  return std::malloc(std::max<std::size_t>(bytes, 1));
}
void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace fusion {

std::size_t largest_request() { return largest; }
void forget_requests() { largest = 0; }

}  // namespace fusion
