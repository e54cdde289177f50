#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

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

/// Whether the path leads to where standard output goes, be it a file: that is written to, not replaced.
bool is_standard_output(const fs::path& path) {
  struct stat named {
  }, output{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 && named.st_dev == output.st_dev &&
         named.st_ino == output.st_ino;
}

/// An open file, closed at the end.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : file_(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, 0666)) {}
  explicit OpenFile(int duplicated) : file_(::dup(duplicated)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  bool is_open() const { return file_ >= 0; }

  /// False with errno set. No bytes are written too: a full device says so.
  bool write(std::string_view text) const {
    do {
      const ssize_t written = ::write(file_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    } while (!text.empty());
    return true;
  }

 private:
  int file_;
};

void write_in_place(const fs::path& path, std::string_view text) {
  if (is_standard_output(path)) {
    std::fflush(stdout);  // what was printed before stands before
    if (!OpenFile(STDOUT_FILENO).write(text)) fail_to_write(path, errno);
    return;
  }
  const OpenFile file(path, O_WRONLY);
  if (!file.is_open() || !file.write(text)) fail_to_write(path, errno);
}

/// Where a file of this name will stand: links are followed.
fs::path target_of(const fs::path& path) {
  std::error_code ignored, error;
  if (!fs::is_symlink(path, ignored)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  if (error) fail_to_write(path, error.value());
  return target;
}

/// A name beside the target, which goes unless it is renamed; no other process has it, on this machine or on one that
/// shares the folder.
class Temporary {
 public:
  explicit Temporary(const fs::path& target)
      : path_(target.string() + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(std::random_device{}())) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { ::unlink(path_.c_str()); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

void fail_to_write(const fs::path& path, int error_number) {
  const std::string reason = std::string("can't be written: ") + std::strerror(error_number);
  constexpr std::array faults_of_the_disk = {ENOSPC, EDQUOT, EIO, EFBIG};
  if (std::ranges::find(faults_of_the_disk, error_number) != faults_of_the_disk.end())
    throw RuntimeFault(path.string() + ": " + reason);
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code ignored;
  if (error_number == ENOENT && !fs::is_directory(folder, ignored))
    throw InputError(path.string(), "", "can't be written: there is no folder " + folder.string());
  throw InputError(path.string(), "", reason);
}

bool is_replaceable(const fs::path& path) {
  std::error_code ignored;
  return !fs::exists(path, ignored) || (fs::is_regular_file(path, ignored) && !is_standard_output(path));
}

void require_writable(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail_to_write(path, EISDIR);
  if (fs::exists(path, ignored) && ::access(path.c_str(), W_OK) != 0) fail_to_write(path, errno);
  if (is_replaceable(path)) {
    const Temporary temporary(target_of(path));
    if (!OpenFile(temporary.path(), O_WRONLY | O_CREAT | O_TRUNC).is_open()) fail_to_write(path, errno);
  } else if (fs::is_character_file(path, ignored) && !is_standard_output(path)) {  // opening a pipe would wait
    const OpenFile device(path, O_WRONLY | O_NONBLOCK);
    if (!device.is_open() || !device.write("")) fail_to_write(path, errno);
  }
}

void write_text(const fs::path& path, std::string_view text) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail_to_write(path, EISDIR);
  if (!is_replaceable(path)) return write_in_place(path, text);
  const fs::path target = target_of(path);
  const Temporary temporary(target);
  {
    const OpenFile file(temporary.path(), O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.is_open() || !file.write(text)) fail_to_write(path, errno);
  }
  if (::rename(temporary.path().c_str(), target.c_str()) != 0) fail_to_write(path, errno);
}

}  // namespace fusion
