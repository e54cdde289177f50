#include "exec/data.h"

#include <array>

#include "core/base/error.h"
#include "core/base/names.h"
#include "exec/data_order.h"
#include "exec/data_ports.h"
#include "exec/data_sources.h"

namespace fusion::exec {
namespace {

struct SourceRow {
  DataRow row;
  bool has_argument;
  std::unique_ptr<DataSet> (*open)(const DataRequest&);
};

constexpr std::array sources = {
    SourceRow{{"text", "text:FILE, its bytes are the tokens; text:FILE,bpe:DIR with GPT-2's vocab.json and merges.txt"},
              true,
              open_text},
    SourceRow{
        {"idx", "idx:DIR, train-images-idx3-ubyte and train-labels-idx1-ubyte (MNIST), also as .gz"}, true, open_idx},
    SourceRow{{"cifar10", "cifar10:DIR, data_batch_1.bin to data_batch_5.bin"}, true, open_cifar10},
    SourceRow{{"synthetic", "made up from the seed, for any network"}, false, open_synthetic},
};

const SourceRow& source_named(std::string_view name) {
  for (const SourceRow& source : sources)
    if (source.row.name == name) return source;
  throw InputError("--data", "", unknown_name(name, names_of(data_table())));
}

HostTensor host_zeros(const Tensor& tensor) {
  return HostTensor::zeros(tensor.shape, tensor.dtype == DType::int64 ? DType::int64 : DType::fp32);
}

}  // namespace

std::vector<DataRow> data_table() {
  std::vector<DataRow> rows;
  for (const SourceRow& source : sources) rows.push_back(source.row);
  return rows;
}

std::unique_ptr<DataSet> open_data(const std::string& spec, const Graph& graph, std::uint64_t seed) {
  const std::size_t colon = spec.find(':');
  const SourceRow& source = source_named(spec.substr(0, colon));
  const std::string argument = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (argument.empty() == source.has_argument)
    throw InputError("--data", "", in_quotes(spec) + " is not of the form " + std::string(source.row.help));
  return source.open({argument, graph, ports_of(graph), seed});
}

Batch batch_of(const DataSet& data, const Graph& graph, std::uint64_t seed, std::int64_t first) {
  check(first >= 0, "no such sample");
  const DataPorts ports = ports_of(graph);
  Batch batch{host_zeros(graph.tensor(ports.input)), host_zeros(graph.tensor(ports.label))};
  const auto num_samples = static_cast<std::uint64_t>(data.num_samples());
  const auto rows = static_cast<std::uint64_t>(graph.micro_batch);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t drawn = static_cast<std::uint64_t>(first) + row, epoch = drawn / num_samples;
    const std::uint64_t sample = shuffled(drawn % num_samples, num_samples, mixed(seed, epoch));
    data.fill(static_cast<std::int64_t>(sample), static_cast<std::int64_t>(row), batch.input, batch.label);
  }
  return batch;
}

}  // namespace fusion::exec
