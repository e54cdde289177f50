#include "exec/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace fusion::exec {
namespace fs = std::filesystem;

struct DurableFile::Hash {
  XXH3_state_t state;  // wants 64-byte alignment, which its type carries
};

namespace {

[[noreturn]] void refuse(const fs::path& path, const char* what) {
  throw InputError(path.string(), "", what + std::string(": ") + std::strerror(errno));
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

void sync_directory(const fs::path& directory) {
  const fs::path place = directory.empty() ? "." : directory;
  const int opened = ::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) refuse(place, "can't be opened");
  const bool synced = ::fsync(opened) == 0 || errno == EINVAL;  // some network file systems have no such thing
  ::close(opened);
  if (!synced) fail_to_write(place, errno);
}

}  // namespace

DurableFile::DurableFile(fs::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), hash_(std::make_unique<Hash>()) {
  XXH3_64bits_reset(&hash_->state);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail();
}

DurableFile::~DurableFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void DurableFile::fail() const { fail_to_write(path_, errno); }

void DurableFile::write(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&hash_->state, bytes.data(), bytes.size());
  bytes_ += static_cast<std::int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FileDigest DurableFile::commit() {
  if (::fsync(file_) != 0) fail();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  ::close(std::exchange(file_, -1));
  sync_directory(path_.parent_path());
  return {bytes_, hexadecimal(XXH3_64bits_digest(&hash_->state))};
}

FileDigest digest_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InputError(path.string(), "", "no such file");
  if (!fs::is_regular_file(path, ignored)) throw InputError(path.string(), "", "is not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path, "can't be read");
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<char> chunk(std::size_t{1} << 20);
  std::int64_t bytes = 0;
  while (in) {
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    XXH3_64bits_update(&state, chunk.data(), static_cast<std::size_t>(in.gcount()));
    bytes += in.gcount();
  }
  if (in.bad()) refuse(path, "can't be read");
  return {bytes, hexadecimal(XXH3_64bits_digest(&state))};
}

std::string checksum_of(std::initializer_list<std::span<const std::byte>> spans) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& span : spans) XXH3_64bits_update(&state, span.data(), span.size());
  return hexadecimal(XXH3_64bits_digest(&state));
}

void make_durable_directory(const fs::path& directory) {
  struct stat found {};
  if (directory.empty() || (::stat(directory.c_str(), &found) == 0 && S_ISDIR(found.st_mode))) return;
  make_durable_directory(directory.parent_path());
  // Another rank may make it at the same moment.
  if (::mkdir(directory.c_str(), 0777) != 0 && (errno != EEXIST || !fs::is_directory(directory)))
    refuse(directory, "can't be made");
  sync_directory(directory.parent_path());
}

void remove_durably(const fs::path& path) {
  if (::unlink(path.c_str()) == 0) return sync_directory(path.parent_path());
  if (errno != ENOENT) refuse(path, "can't be removed");
}

}  // namespace fusion::exec
