#include "core/graph/graph.h"

#include <algorithm>
#include <stdexcept>

#include "core/base/error.h"

namespace fusion {
namespace {

template <class T>
const T& attribute(const Op& op, std::string_view name) {
  const auto found = std::ranges::find(op.attributes, name, &Attribute::name);
  check(found != op.attributes.end(), "op \"" + op.name + "\" has no attribute \"" + std::string(name) + '"');
  const T* value = std::get_if<T>(&found->value);
  check(value != nullptr, "attribute \"" + std::string(name) + "\" of op \"" + op.name + "\" has another type");
  return *value;
}

}  // namespace

std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return 4;
    case DType::fp16:
    case DType::bf16:
      return 2;
    case DType::int64:
      return 8;
  }
  throw std::logic_error("no such dtype");
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::fp16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::int64:
      return "int64";
  }
  throw std::logic_error("no such dtype");
}

std::int64_t num_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 1) throw std::invalid_argument("shape " + to_string(shape) + " has a dimension below 1");
    if (dimension > max_elements / product)
      throw std::invalid_argument("shape " + to_string(shape) + " has more than 2^40 elements");
    product *= dimension;
  }
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::int64_t Op::integer(std::string_view key) const { return attribute<std::int64_t>(*this, key); }
double Op::real(std::string_view key) const { return attribute<double>(*this, key); }
bool Op::flag(std::string_view key) const { return attribute<bool>(*this, key); }
const std::vector<std::int64_t>& Op::integers(std::string_view key) const {
  return attribute<std::vector<std::int64_t>>(*this, key);
}

std::int64_t num_parameters(const Graph& graph) {
  std::int64_t total = 0;
  for (const Parameter& parameter : graph.parameters) total += num_elements(parameter.shape);
  return total;
}

Bytes bytes_of(const Tensor& tensor) { return Bytes(num_elements(tensor.shape) * size_of(tensor.dtype)); }
Bytes bytes_of(const Graph& graph, const Parameter& parameter) {
  return Bytes(num_elements(parameter.shape) * size_of(graph.dtype));
}

}  // namespace fusion
