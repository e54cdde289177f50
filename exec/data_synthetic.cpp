// Made-up samples, from the seed alone, that a network can learn something from.
//
//   tokens   an arithmetic progression modulo the vocabulary: a start, and a stride of 1 to 4, drawn per sample; where
//            labels have the same shape, they are the token that follows
//   pictures, or any activations: uniform noise in [-1, 1) plus or minus a half, by a pattern of the sample's class;
//            where labels are [B], they are that class
//   labels of any other shape: drawn uniformly
#include <algorithm>
#include <limits>
#include <random>

#include "exec/data_order.h"
#include "exec/data_sources.h"

namespace fusion::exec {
namespace {

constexpr std::int64_t num_synthetic = 65'536;

class SyntheticSet : public DataSet {
 public:
  SyntheticSet(const Graph& graph, const DataPorts& ports, std::uint64_t seed) : seed_(seed), classes_(ports.classes) {
    const Tensor &input = graph.tensor(ports.input), &label = graph.tensor(ports.label);
    tokens_ = std::min(ports.vocabulary.value_or(std::numeric_limits<std::int32_t>::max()), ports.classes);
    predicts_next_ = input.dtype == DType::int64 && label.shape == input.shape;
    classifies_ = input.dtype != DType::int64 && label.shape.size() == 1;
    if (!predicts_next_ && ports.vocabulary) tokens_ = *ports.vocabulary;
  }

  std::int64_t num_samples() const override { return num_synthetic; }

  std::string identity() const override { return "synthetic, " + std::to_string(num_synthetic) + " samples"; }

  void fill(std::int64_t i, std::int64_t row, HostTensor& input, HostTensor& label) const override {
    std::mt19937_64 random(mixed(seed_, static_cast<std::uint64_t>(i)));
    const std::uint64_t kind = below(random, classes_);
    const auto labels = row_of(label.integers(), row, label.shape[0]);
    for (std::int64_t& value : labels) value = static_cast<std::int64_t>(below(random, classes_));
    if (classifies_) labels[0] = static_cast<std::int64_t>(kind);
    if (input.dtype == DType::fp32)
      fill_noise(random, kind, row_of(input.floats(), row, input.shape[0]));
    else
      fill_tokens(random, row_of(input.integers(), row, input.shape[0]), labels);
  }

 private:
  template <class T>
  static std::span<T> row_of(std::span<T> all, std::int64_t row, std::int64_t rows) {
    const std::size_t length = all.size() / static_cast<std::size_t>(rows);
    return all.subspan(static_cast<std::size_t>(row) * length, length);
  }

  static std::uint64_t below(std::mt19937_64& random, std::int64_t bound) {
    return random() % static_cast<std::uint64_t>(bound);
  }

  void fill_noise(std::mt19937_64& random, std::uint64_t kind, std::span<float> values) const {
    const std::uint64_t pattern = mixed(~seed_, kind);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float noise = static_cast<float>(random() >> 40) / static_cast<float>(1 << 23) - 1;
      values[i] = noise + ((mixed(pattern, i) & 1) == 0 ? -0.5F : 0.5F);
    }
  }

  void fill_tokens(std::mt19937_64& random, std::span<std::int64_t> tokens, std::span<std::int64_t> labels) const {
    auto token = static_cast<std::int64_t>(below(random, tokens_));
    const auto stride = static_cast<std::int64_t>(1 + below(random, 4));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = token;
      token = (token + stride) % tokens_;
      if (predicts_next_) labels[i] = token;
    }
  }

  std::uint64_t seed_;
  std::int64_t classes_, tokens_ = 0;
  bool predicts_next_ = false, classifies_ = false;
};

}  // namespace

std::unique_ptr<DataSet> open_synthetic(const DataRequest& request) {
  return std::make_unique<SyntheticSet>(request.graph, request.ports, request.seed);
}

}  // namespace fusion::exec
