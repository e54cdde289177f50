// Training data: where the values of input and label ops come from. Position is a number, so that a run resumes
// exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "exec/host_tensor.h"

namespace fusion::exec {

/// A data set as samples; sample i is the same on every rank. Which samples a step uses follows from the seed and from
/// how many were taken before: a seeded permutation per epoch.
class DataSet {
 public:
  virtual ~DataSet() = default;
  virtual std::int64_t num_samples() const = 0;
  /// A line that tells it from any other, wherever its files lie: "text of bytes, 128 tokens a sample, 871 samples,
  /// checksum 0123456789abcdef".
  virtual std::string identity() const = 0;
  /// What is done to samples so that they fit the network, for the user; nothing where they come as they are.
  virtual std::string remark() const { return {}; }
  /// Writes sample `i` into row `row` of the input's and the label's tensors.
  virtual void fill(std::int64_t i, std::int64_t row, HostTensor& input, HostTensor& label) const = 0;
};

/// The kinds of data, for --help.
struct DataRow {
  std::string_view name, help;
};
std::vector<DataRow> data_table();

/// "text:FILE" (bytes), "text:FILE,bpe:DIR" (GPT-2 BPE from vocab.json and merges.txt), "idx:DIR", "cifar10:DIR",
/// "synthetic". Checked against the graph's input and label: shapes, dtype, vocabulary or classes. Throws InputError
/// naming file and fault, also for a graph without exactly one input and one label.
std::unique_ptr<DataSet> open_data(const std::string& spec, const Graph&, std::uint64_t seed);

struct Batch {
  HostTensor input, label;
};
/// B samples from number `first` on of an endless row of epochs, each its own permutation. Activations come as fp32
/// whatever the graph's dtype is.
Batch batch_of(const DataSet&, const Graph&, std::uint64_t seed, std::int64_t first);

}  // namespace fusion::exec
