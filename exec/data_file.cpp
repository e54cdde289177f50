#include "exec/data_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace fusion::exec {

struct DataFile::Stream {
  gzFile file = nullptr;  // reads a plain file as it is
};

DataFile::DataFile(std::filesystem::path path) : path_(std::move(path)), stream_(std::make_unique<Stream>()) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path_, ignored)) throw InputError(path_.string(), "", "no such file");
  stream_->file = gzopen(path_.c_str(), "rb");
  if (stream_->file == nullptr)
    throw InputError(path_.string(), "", std::string("can't be read: ") + std::strerror(errno));
}

DataFile::~DataFile() {
  if (stream_->file != nullptr) gzclose_r(stream_->file);
}

/// 0 at the end. A compressed file that is cut off counts as damaged.
std::size_t DataFile::read_some(std::span<std::uint8_t> to) {
  const int read = gzread(stream_->file, to.data(), static_cast<unsigned>(to.size()));
  int error = Z_OK;
  const std::string reason = gzerror(stream_->file, &error);
  if (read < 0 || (error != Z_OK && error != Z_STREAM_END))
    throw InputError(path_.string(), "", "is damaged or cut off: " + reason);
  bytes_ += static_cast<std::uint64_t>(read);
  return static_cast<std::size_t>(read);
}

std::vector<std::uint8_t> DataFile::read(std::uint64_t bytes) {
  constexpr std::uint64_t chunk = std::uint64_t{1} << 20;
  std::vector<std::uint8_t> all;
  while (all.size() < bytes) {
    const std::size_t before = all.size();
    all.resize(before + std::min(chunk, bytes - before));
    const std::size_t read = read_some(std::span(all).subspan(before));
    all.resize(before + read);
    if (read == 0)
      throw InputError(path_.string(), "",
                       "ends after " + std::to_string(bytes_) + " bytes, " + std::to_string(bytes - all.size()) +
                           " more are wanted");
  }
  return all;
}

void DataFile::expect_end() {
  std::uint8_t extra = 0;
  const std::uint64_t expected = bytes_;
  if (read_some({&extra, 1}) != 0)
    throw InputError(path_.string(), "", "is longer than the " + std::to_string(expected) + " bytes that it describes");
}

}  // namespace fusion::exec
