// Files that appear whole or not at all, through a kill and through a power cut, and the digest that tells a changed
// one. core/base/file.h is for text that can be made again; this is for what can't.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace fusion::exec {

/// Length and XXH3-64 in hexadecimal: tells faults of disks and copies, not a forger.
struct FileDigest {
  std::int64_t bytes = 0;
  std::string checksum;
  bool operator==(const FileDigest&) const = default;
};

/// A file being written as "PATH.tmp": one writer per path. Throws what fail_to_write does, with the reason of the
/// system (RuntimeFault: no space left; InputError: permission denied, …); what stood at PATH stays as it was until
/// commit.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();  ///< removes the temporary file where commit has not been reached

  void write(std::span<const std::byte>);
  /// Data on the disk, renamed, and the new name on the disk.
  FileDigest commit();

 private:
  struct Hash;
  [[noreturn]] void fail() const;
  std::filesystem::path path_, temporary_;
  int file_ = -1;
  std::int64_t bytes_ = 0;
  std::unique_ptr<Hash> hash_;
};

/// Throws InputError where there is no such file, or none that can be read.
FileDigest digest_of(const std::filesystem::path&);

/// The checksum of these bytes, one span after the other.
std::string checksum_of(std::initializer_list<std::span<const std::byte>>);

/// Makes a directory and those above it, each name on the disk. Throws InputError.
void make_durable_directory(const std::filesystem::path&);

/// Removes a file if it is there, durably.
void remove_durably(const std::filesystem::path&);

}  // namespace fusion::exec
