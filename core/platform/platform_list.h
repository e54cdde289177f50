// Finds platform files by name.
#pragma once

#include <filesystem>
#include <string>

namespace fusion {

/// The file of a name under platforms/, or the path itself. Throws InputError with the nearest names.
std::filesystem::path platform_path(const std::string& name_or_path);

}  // namespace fusion
