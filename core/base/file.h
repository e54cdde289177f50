// Whole files in and out. What is written appears complete or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fusion {

/// Text of a file. Throws InputError: no such file, a directory, empty, or not text (a NUL byte).
std::string read_text(const std::filesystem::path&);

/// Whether writing to `path` makes or replaces a regular file; false for devices, pipes, folders, standard output.
bool is_replaceable(const std::filesystem::path&);

/// Writes a temporary file beside `path`, then renames it, so that a reader or a crash never sees half of it. Links are
/// followed; what is no regular file (a pipe, /dev/stdout) is written to in place.
/// Throws what fail_to_write does.
void write_text(const std::filesystem::path&, std::string_view text);

/// For the start of long work: throws what write_text would throw, as far as that can be known before. What stands at
/// `path` stays as it is.
void require_writable(const std::filesystem::path&);

/// "PATH: can't be written: REASON" of an errno, at any moment: RuntimeFault where the disk or its quota is full or
/// broken, InputError where the path is wrong (no folder, a folder, no permission).
[[noreturn]] void fail_to_write(const std::filesystem::path&, int error_number);

}  // namespace fusion
