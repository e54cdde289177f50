// What a platform, a site, a host or a device may be called.
#pragma once

#include <string>
#include <string_view>

namespace fusion {

/// Names appear in link names ("a>b"), tables and reports: 1 to 64 visible characters, without the sign that joins two.
bool is_name(std::string_view);

/// What to say of a text that is none.
std::string not_a_name(std::string_view);

}  // namespace fusion
