// The stack of a fiber, and what the address sanitizer must be told whenever the stack changes.
#pragma once

#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/context/preallocated.hpp>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace fusion::emulator {

/// A range of memory that a thread or fiber has as its stack.
struct StackRange {
  const void* bottom = nullptr;
  std::size_t size = 0;
};

inline StackRange range_of(const boost::context::stack_context& stack) {
  return {static_cast<std::byte*>(stack.sp) - stack.size, stack.size};
}

#if defined(__SANITIZE_ADDRESS__)

/// A stack that another fiber left may hold its marks.
inline void forget_marks(StackRange stack) { __asan_unpoison_memory_region(stack.bottom, stack.size); }
/// Before a change; `kept` is null where this stack will not be used again.
inline void start_switch(void** kept, StackRange to) { __sanitizer_start_switch_fiber(kept, to.bottom, to.size); }
/// After a change; returns where we came from.
inline StackRange finish_switch(void* kept) {
  StackRange from;
  __sanitizer_finish_switch_fiber(kept, &from.bottom, &from.size);
  return from;
}

#else

inline void forget_marks(StackRange) {}
inline void start_switch(void**, StackRange) {}
inline StackRange finish_switch(void*) { return {}; }

#endif

}  // namespace fusion::emulator
