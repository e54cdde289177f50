// IDX, the format of MNIST and its kin: two zero bytes, 0x08 for bytes, the number of dimensions, each of those as four
// bytes, big-endian, then the values.
#include "core/base/error.h"
#include "exec/data_file.h"
#include "exec/data_pictures.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

/// DIR/NAME, or DIR/NAME.gz.
fs::path plain_or_compressed(const fs::path& directory, const std::string& name) {
  const fs::path plain = directory / name, compressed = directory / (name + ".gz");
  std::error_code ignored;
  if (fs::exists(plain, ignored)) return plain;
  if (fs::exists(compressed, ignored)) return compressed;
  throw InputError(directory.string(), "", "has neither " + name + " nor " + name + ".gz");
}

Shape read_header(DataFile& file, std::size_t rank) {
  const std::vector<std::uint8_t> header = file.read(4 + 4 * rank);
  if (header[0] != 0 || header[1] != 0 || header[2] != 0x08 || header[3] != rank)
    throw InputError(file.path().string(), "",
                     "is not an IDX file of bytes in " + std::to_string(rank) +
                         " dimensions: it must begin with 0 0 8 " + std::to_string(rank) + ", and begins with " +
                         std::to_string(header[0]) + ' ' + std::to_string(header[1]) + ' ' + std::to_string(header[2]) +
                         ' ' + std::to_string(header[3]));
  Shape shape;
  for (std::size_t at = 4; at < header.size(); at += 4)
    shape.push_back(std::int64_t{header[at]} << 24 | header[at + 1] << 16 | header[at + 2] << 8 | header[at + 3]);
  return shape;
}

struct Values {
  Shape shape;
  std::vector<std::uint8_t> bytes;
};

Values read_idx(const fs::path& path, std::size_t rank) {
  DataFile file(path);
  Values values{read_header(file, rank), {}};
  try {
    values.bytes = file.read(static_cast<std::uint64_t>(num_elements(values.shape)));
  } catch (const std::invalid_argument& error) {
    throw InputError(path.string(), "", error.what());
  }
  file.expect_end();
  return values;
}

}  // namespace

std::unique_ptr<DataSet> open_idx(const DataRequest& request) {
  const fs::path pictures_path = plain_or_compressed(request.argument, "train-images-idx3-ubyte");
  const fs::path labels_path = plain_or_compressed(request.argument, "train-labels-idx1-ubyte");
  Values pictures = read_idx(pictures_path, 3), labels = read_idx(labels_path, 1);
  const Shape& shape = pictures.shape;
  if (shape[0] != labels.shape[0])
    throw InputError(labels_path.string(), "",
                     "has " + std::to_string(labels.shape[0]) + " labels, " + pictures_path.filename().string() +
                         " has " + std::to_string(shape[0]) + " pictures");
  return fit_pictures(request, request.argument,
                      {"idx", 1, shape[1], shape[2], std::move(pictures.bytes), std::move(labels.bytes)});
}

}  // namespace fusion::exec
