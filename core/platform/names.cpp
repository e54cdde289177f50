#include "core/platform/names.h"

#include <algorithm>

#include "core/base/error.h"

namespace fusion {

bool is_name(std::string_view text) {
  constexpr std::size_t longest = 64;
  const auto bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '>'; };
  return !text.empty() && text.size() <= longest && text.front() != ' ' && text.back() != ' ' &&
         std::ranges::none_of(text, bad);
}

std::string not_a_name(std::string_view text) {
  return in_quotes(text) + " is not a name; write 1 to 64 visible characters other than \">\"";
}

}  // namespace fusion
