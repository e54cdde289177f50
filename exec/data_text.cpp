// Texts: sample i is tokens [i T, (i + 1) T), its label the same moved on by one. The tokens after the last whole
// sample are left out.
#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/file.h"
#include "exec/bpe.h"
#include "exec/data_sources.h"
#include "exec/durable_file.h"

namespace fusion::exec {
namespace {

class TextSet : public DataSet {
 public:
  TextSet(std::string_view tokenizer, std::vector<std::int32_t> tokens, std::int64_t length)
      : tokens_(std::move(tokens)),
        length_(length),
        identity_("text of " + std::string(tokenizer) + ", " + std::to_string(length_) + " tokens a sample, " +
                  std::to_string(TextSet::num_samples()) + " samples, checksum " +
                  checksum_of({std::as_bytes(std::span(tokens_))})) {}

  std::int64_t num_samples() const override { return (static_cast<std::int64_t>(tokens_.size()) - 1) / length_; }
  std::string identity() const override { return identity_; }

  void fill(std::int64_t i, std::int64_t row, HostTensor& input, HostTensor& label) const override {
    const auto from = tokens_.begin() + i * length_;
    std::copy_n(from, length_, input.integers().begin() + row * length_);
    std::copy_n(from + 1, length_, label.integers().begin() + row * length_);
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t length_;
  std::string identity_;
};

/// T, of a graph that reads tokens [B, T] and learns classes [B, T].
std::int64_t sequence_length(const DataRequest& request) {
  const Tensor &input = request.graph.tensor(request.ports.input), &label = request.graph.tensor(request.ports.label);
  if (input.dtype != DType::int64 || input.shape.size() != 2 || label.shape != input.shape)
    throw InputError(request.argument, "",
                     "is a text; it needs tokens [B, T] and labels [B, T], model " + in_quotes(request.graph.name) +
                         " reads " + to_string(input.shape) + (input.dtype == DType::int64 ? "" : " activations") +
                         " and learns " + to_string(label.shape));
  return input.shape[1];
}

std::vector<std::int32_t> tokens_of(const std::string& text, const std::string& bpe_directory) {
  if (!bpe_directory.empty()) return encode(load_byte_pairs(bpe_directory), text);
  std::vector<std::int32_t> tokens(text.size());
  std::ranges::transform(text, tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
  return tokens;
}

void require_known_tokens(const DataRequest& request, const std::string& file,
                          const std::vector<std::int32_t>& tokens) {
  const std::int64_t most =
      std::min(request.ports.vocabulary.value_or(std::numeric_limits<std::int64_t>::max()), request.ports.classes);
  const auto beyond = std::ranges::find_if(tokens, [&](std::int32_t token) { return token >= most; });
  if (beyond != tokens.end())
    throw InputError(file, "",
                     "token " + std::to_string(beyond - tokens.begin()) + " is " + std::to_string(*beyond) +
                         ", the vocabulary of model " + in_quotes(request.graph.name) + " ends at " +
                         std::to_string(most - 1));
}

}  // namespace

std::unique_ptr<DataSet> open_text(const DataRequest& request) {
  constexpr std::string_view option = ",bpe:";
  const std::size_t at = request.argument.rfind(option);
  const std::string file = request.argument.substr(0, at);
  const std::string bpe = at == std::string::npos ? "" : request.argument.substr(at + option.size());
  if (at != std::string::npos && bpe.empty()) throw InputError("--data", "bpe", "names no directory");
  const std::int64_t length = sequence_length(request);
  std::vector<std::int32_t> tokens = tokens_of(read_text(file), bpe);
  if (static_cast<std::int64_t>(tokens.size()) <= length)
    throw InputError(file, "",
                     "has " + std::to_string(tokens.size()) + " tokens, one sample of model " +
                         in_quotes(request.graph.name) + " needs " + std::to_string(length + 1));
  require_known_tokens(request, file, tokens);
  return std::make_unique<TextSet>(bpe.empty() ? "bytes" : "byte pairs", std::move(tokens), length);
}

}  // namespace fusion::exec
