// Watches how much a call asks for: linking allocation_watch.cpp replaces the program's operator new.
#pragma once

#include <cstddef>

namespace fusion {

/// The largest single request of this thread since `forget_requests`.
std::size_t largest_request();
void forget_requests();

}  // namespace fusion
