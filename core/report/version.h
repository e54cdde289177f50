// The version that programs print and reports carry.
#pragma once

#include <string_view>

namespace fusion {

std::string_view version();

}  // namespace fusion
