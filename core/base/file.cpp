#include "core/base/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/base/error.h"

namespace fusion {
namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InputError(path.string(), "", "no such file");
  if (fs::is_directory(path, ignored)) throw InputError(path.string(), "", "is a directory, not a file");
  if (fs::is_character_file(path, ignored)) throw InputError(path.string(), "", "is a device, not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path.string(), "", std::string("can't be read: ") + std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw InputError(path.string(), "", "is empty");
  if (text.find('\0') != std::string::npos) throw InputError(path.string(), "", "is not a text file");
  return text;
}

namespace {

InputError not_written(const fs::path& path, const std::string& reason) {
  return InputError(path.string(), "", "can't be written: " + reason);
}

void write_stream(const fs::path& to, const fs::path& named, std::string_view text) {
  std::ofstream out(to, std::ios::binary);
  if (!out) throw not_written(named, std::strerror(errno));
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  if (!out) throw not_written(named, std::strerror(errno));
}

}  // namespace

bool is_replaceable(const fs::path& path) {
  std::error_code ignored;
  return !fs::exists(path, ignored) || fs::is_regular_file(path, ignored);
}

void write_text(const fs::path& path, std::string_view text) {
  // A device, a pipe or a socket is written to, never replaced; a link is followed.
  if (!is_replaceable(path)) return write_stream(path, path, text);
  std::error_code error;
  const fs::path target = fs::is_symlink(path) ? fs::weakly_canonical(path, error) : path;
  const fs::path temporary = target.string() + ".tmp" + std::to_string(::getpid());
  try {
    write_stream(temporary, path, text);
  } catch (...) {
    fs::remove(temporary, error);
    throw;
  }
  fs::rename(temporary, target, error);
  if (!error) return;
  const std::string reason = error.message();
  fs::remove(temporary, error);
  throw not_written(path, reason);
}

}  // namespace fusion
