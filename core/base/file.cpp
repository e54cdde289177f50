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

void write_text(const fs::path& path, std::string_view text) {
  const fs::path temporary = path.string() + ".tmp" + std::to_string(::getpid());
  {
    std::ofstream out(temporary, std::ios::binary);
    if (!out) throw InputError(path.string(), "", std::string("can't be written: ") + std::strerror(errno));
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.flush();
    if (!out) {
      const std::string reason = std::strerror(errno);
      std::error_code ignored;
      fs::remove(temporary, ignored);
      throw InputError(path.string(), "", "can't be written: " + reason);
    }
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  if (!error) return;
  fs::remove(temporary);
  throw InputError(path.string(), "", "can't be written: " + error.message());
}

}  // namespace fusion
