// Whole files in and out. What is written appears complete or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fusion {

/// Text of a file. Throws InputError: no such file, a directory, empty, or not text (a NUL byte).
std::string read_text(const std::filesystem::path&);

/// Whether writing to `path` makes or replaces a regular file; false for devices, pipes and folders.
bool is_replaceable(const std::filesystem::path&);

/// Writes a temporary file beside `path`, then renames it, so that a reader or a crash never sees half of it. Links are
/// followed; what is no regular file (a pipe, /dev/stdout) is written to in place.
/// Throws InputError where the folder does not exist or can't be written.
void write_text(const std::filesystem::path&, std::string_view text);

}  // namespace fusion
