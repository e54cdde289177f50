// Binary files of data sets, plain or gzip-compressed, read with a length in mind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace fusion::exec {

/// Throws InputError naming the file: not there, damaged (the checksum of gzip), shorter or longer than wanted.
class DataFile {
 public:
  explicit DataFile(std::filesystem::path);
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  /// Exactly so many bytes. Memory grows with what is there, not with what a header claims.
  std::vector<std::uint8_t> read(std::uint64_t bytes);
  void expect_end();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::size_t read_some(std::span<std::uint8_t>);
  struct Stream;
  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
  std::uint64_t bytes_ = 0;  ///< read so far
};

}  // namespace fusion::exec
