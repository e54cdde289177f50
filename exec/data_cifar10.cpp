// CIFAR-10, the binary version: five files of records, each one label and 3 x 32 x 32 bytes, red first. The published
// files hold 10,000 records each; any number from 1 is taken, so that a part can be cut off for a trial.
#include "core/base/error.h"
#include "exec/data_file.h"
#include "exec/data_pictures.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

constexpr std::uint64_t values = 3 * 32 * 32, record = 1 + values;
constexpr std::uint8_t num_classes = 10;

void append(Pictures& pictures, const fs::path& path) {
  DataFile file(path);
  const std::uint64_t bytes = fs::file_size(path), records = bytes / record;
  if (records == 0 || bytes % record != 0)
    throw InputError(path.string(), "",
                     "has " + std::to_string(bytes) + " bytes, a multiple of " + std::to_string(record) + " is wanted");
  const std::vector<std::uint8_t> all = file.read(bytes);
  for (auto at = all.begin(); at != all.end(); at += record) {
    if (*at >= num_classes)
      throw InputError(path.string(), "",
                       "record " + std::to_string((at - all.begin()) / static_cast<std::ptrdiff_t>(record)) +
                           " has label " + std::to_string(*at) + ", 0 to 9 are the classes");
    pictures.labels.push_back(*at);
    pictures.pixels.insert(pictures.pixels.end(), at + 1, at + record);
  }
}

}  // namespace

std::unique_ptr<DataSet> open_cifar10(const DataRequest& request) {
  Pictures pictures{.source = "cifar10", .channels = 3, .height = 32, .width = 32, .pixels = {}, .labels = {}};
  for (int batch = 1; batch <= 5; ++batch)
    append(pictures, fs::path(request.argument) / ("data_batch_" + std::to_string(batch) + ".bin"));
  return fit_pictures(request, request.argument, std::move(pictures));
}

}  // namespace fusion::exec
