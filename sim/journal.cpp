#include "sim/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"

namespace fusion::sim {
namespace {

constexpr std::int64_t append_byte = std::int64_t{1} << 61, first_claim = std::int64_t{1} << 62;

InputError fault(const std::filesystem::path& path, const char* what) {
  return InputError(path.string(), "", std::string(what) + ": " + std::strerror(errno));
}

std::int64_t claim_byte(std::uint64_t id) { return first_claim + static_cast<std::int64_t>(id >> 2); }

}  // namespace

Journal::Journal(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail_to_write(path_, errno);
}

Journal::~Journal() { ::close(file_); }

bool Journal::lock(std::int64_t byte, short kind, bool wait) {
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  // Locks of the open file, not of the process: reading the journal elsewhere in this process does not drop them.
  while (::fcntl(file_, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range) != 0) {
    if (errno == EINTR) continue;
    if (!wait && (errno == EAGAIN || errno == EACCES)) return false;
    throw fault(path_, "can't be locked, which a sweep needs");
  }
  return true;
}

bool Journal::claim(std::uint64_t id) { return lock(claim_byte(id), F_WRLCK, false); }

void Journal::release(std::uint64_t id) { lock(claim_byte(id), F_UNLCK, false); }

void Journal::append(const std::string& line) {
  lock(append_byte, F_WRLCK, true);
  struct stat status {};
  if (::fstat(file_, &status) != 0) throw fault(path_, "can't be read");
  const std::int64_t end = status.st_size;
  char last = '\n';
  if (end > 0 && ::pread(file_, &last, 1, end - 1) != 1) throw fault(path_, "can't be read");
  const std::string text = (last == '\n' ? "" : "\n") + line + "\n";  // ends what a kill has torn off
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t more =
        ::pwrite(file_, text.data() + written, text.size() - written, end + static_cast<std::int64_t>(written));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) fail_to_write(path_, errno);
    written += static_cast<std::size_t>(more);
  }
  if (read_ == end) read_ = end + static_cast<std::int64_t>(text.size());  // what is only ours need not be read again
  lock(append_byte, F_UNLCK, false);
}

std::vector<std::string> Journal::read_new() {
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (std::int64_t at = read_;;) {
    const ssize_t got = ::pread(file_, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw fault(path_, "can't be read");
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    at += got;
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  read_ += static_cast<std::int64_t>(begin);
  return lines;
}

}  // namespace fusion::sim
