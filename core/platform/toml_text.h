// Values as TOML text, for the platform files that we write.
#pragma once

#include <string>
#include <string_view>

namespace fusion {

/// A basic string of what is_name or a person's description may hold.
std::string toml_string(std::string_view);

/// The shortest decimal that reads back as the same number.
std::string decimal(double);

}  // namespace fusion
