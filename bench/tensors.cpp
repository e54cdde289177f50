#include "bench/tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"
#include "core/compress/half.h"
#include "core/compress/wire.h"

namespace fusion::bench {
namespace {

Floats gaussian(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  Floats x(compress::elements_of(shape));
  for (float& v : x) v = normal(rng);
  return x;
}

Floats laplace(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::exponential_distribution<float> magnitude;
  Floats x(compress::elements_of(shape));
  for (float& v : x) v = rng() % 2 ? magnitude(rng) : -magnitude(rng);
  return x;
}

/// Gaussian rows whose scales are log-normal: a few rows hold most of what is large, as in gradients of embeddings.
Floats rows(const Shape& shape, std::uint64_t seed) {
  auto x = gaussian(shape, seed);
  std::mt19937_64 rng(seed + 1);
  std::lognormal_distribution<float> scale(0.0f, 1.5f);
  const auto length = static_cast<std::size_t>(shape.size() > 1 ? shape.back() : 64);
  for (std::size_t at = 0; at < x.size(); at += length) {
    const float factor = scale(rng);
    for (std::size_t i = at; i < std::min(at + length, x.size()); ++i) x[i] *= factor;
  }
  return x;
}

/// max(0, N(-1, 1)): 84 % zeros.
Floats relu_sparse(const Shape& shape, std::uint64_t seed) {
  auto x = gaussian(shape, seed);
  for (float& v : x) v = std::max(0.0f, v - 1);
  return x;
}

constexpr std::array<DistributionRow, 4> distributions{{
    {"gaussian", "independent, standard normal", gaussian},
    {"laplace", "independent, heavier tails", laplace},
    {"rows", "normal, with a log-normal scale per row", rows},
    {"relu-sparse", "activations after a ReLU, 84 % zeros", relu_sparse},
}};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) throw InputError(path.string(), "", "can't be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class T>
Floats converted(std::string_view bytes, float (*convert)(T)) {
  Floats values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(stored);
  }
  return values;
}

/// Where one tensor lies in a file.
struct Stored {
  std::string name, dtype;
  Shape shape;
  std::string_view bytes;
};

/// Whether the shape's product is this many elements; sizes come from a file, so the product may be beyond 64 bits.
bool is_of_size(const Shape& shape, std::uint64_t elements) {
  std::uint64_t product = 1;
  for (const std::int64_t size : shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (size < 0 || (factor != 0 && product > std::numeric_limits<std::uint64_t>::max() / factor)) return false;
    product *= factor;
  }
  return product == elements;
}

Sample sample_of(const std::filesystem::path& path, const Stored& s) {
  struct Type {
    std::string_view names[2];
    std::size_t size;
    Floats (*read)(std::string_view);
  };
  static constexpr Type types[] = {
      {{"F32", "<f4"}, 4, [](std::string_view b) { return converted<float>(b, [](float x) { return x; }); }},
      {{"F64", "<f8"},
       8,
       [](std::string_view b) { return converted<double>(b, [](double x) { return static_cast<float>(x); }); }},
      {{"F16", "<f2"}, 2, [](std::string_view b) { return converted<compress::Half>(b, compress::to_float); }},
      {{"BF16", "<bf2"}, 2, [](std::string_view b) { return converted<compress::BFloat16>(b, compress::to_float); }},
  };
  for (const Type& type : types) {
    if (s.dtype != type.names[0] && s.dtype != type.names[1]) continue;
    if (!is_of_size(s.shape, s.bytes.size() / type.size) || s.bytes.size() % type.size != 0)
      throw InputError(
          path.string(), s.name,
          "has " + std::to_string(s.bytes.size()) + " bytes, which is not its shape " + to_string(s.shape));
    return {s.name, s.shape, type.read(s.bytes)};
  }
  throw InputError(path.string(), s.name, "has dtype " + s.dtype + "; fp32, fp16, bf16 and fp64 can be compressed");
}

/// Format 1.0 to 3.0: magic, version, header length, then a Python dictionary as text.
Stored parse_npy(const std::filesystem::path& path, std::string_view file) {
  const auto fail = [&](std::string_view why) {
    return InputError(path.string(), "", "is no .npy file: " + std::string(why));
  };
  if (file.size() < 12 || file.substr(0, 6) != "\x93NUMPY") throw fail("its first bytes are not \\x93NUMPY");
  std::uint32_t length = 0;
  const bool wide = file[6] >= 2;
  std::memcpy(&length, file.data() + 8, wide ? 4 : 2);
  const std::size_t start = wide ? 12 : 10;
  if (length > file.size() - start) throw fail("its header is cut short");
  const std::string_view header = file.substr(start, length);
  const auto after = [&](std::string_view key) {
    const auto at = header.find(key);
    if (at == std::string_view::npos) throw fail("its header has no " + std::string(key));
    return header.substr(at + key.size());
  };
  if (after("'fortran_order':").substr(0, 6).find("True") != std::string_view::npos)
    throw fail("it is in Fortran order");
  Stored s;
  s.name = path.stem().string();
  const auto descr = after("'descr':");
  const auto open = descr.find('\''), close = descr.find('\'', open + 1);
  if (close == std::string_view::npos) throw fail("its dtype is not simple");
  s.dtype = descr.substr(open + 1, close - open - 1);
  const auto shape = after("'shape':");
  for (std::size_t i = shape.find('('); i < shape.size() && shape[i] != ')'; ++i)
    if (std::isdigit(static_cast<unsigned char>(shape[i]))) {
      std::int64_t size = 0;
      for (; i < shape.size() && std::isdigit(static_cast<unsigned char>(shape[i])) && size < (1LL << 50); ++i)
        size = size * 10 + (shape[i] - '0');
      s.shape.push_back(size);
      --i;
    }
  s.bytes = file.substr(start + length);
  return s;
}

Stored stored_of(const std::filesystem::path& path, const std::string& name, const nlohmann::json& entry,
                 std::string_view data) {
  try {
    const auto offsets = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size())
      throw InputError(path.string(), name, "lies outside the file");
    return {name, entry.at("dtype").get<std::string>(), entry.at("shape").get<Shape>(),
            data.substr(offsets[0], offsets[1] - offsets[0])};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(path.string(), name, error.what());
  }
}

/// u64 length, JSON of that length, data.
Stored parse_safetensors(const std::filesystem::path& path, std::string_view file, const std::string& wanted) {
  std::uint64_t length = 0;
  if (file.size() < 8) throw InputError(path.string(), "", "is too short for safetensors");
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8) throw InputError(path.string(), "", "its safetensors header is cut short");
  const auto header = nlohmann::json::parse(file.substr(8, length), nullptr, false);
  if (!header.is_object()) throw InputError(path.string(), "", "its safetensors header is not JSON");
  std::vector<std::string_view> names;
  std::optional<Stored> best;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    names.push_back(name);
    if (!wanted.empty() && name != wanted) continue;
    Stored s = stored_of(path, name, entry, file.substr(8 + length));
    if (!best || s.bytes.size() > best->bytes.size()) best = std::move(s);
  }
  if (!best)
    throw InputError(path.string(), "--tensor",
                     wanted.empty() ? "the file holds no tensor" : unknown_name(wanted, names));
  return *best;
}

}  // namespace

std::span<const DistributionRow> distribution_table() { return distributions; }

Sample make_sample(std::string_view distribution, std::int64_t elements, std::uint64_t seed) {
  constexpr std::int64_t row = 4096;
  std::vector<std::string_view> names;
  for (const auto& d : distributions) names.push_back(d.name);
  const auto found =
      std::find_if(distributions.begin(), distributions.end(), [&](const auto& d) { return d.name == distribution; });
  if (found == distributions.end()) throw InputError("", "--distribution", unknown_name(distribution, names));
  const Shape shape = elements % row == 0 && elements > row ? Shape{elements / row, row} : Shape{elements};
  return {std::string(distribution), shape, found->make(shape, seed)};
}

Sample load_sample(const std::filesystem::path& path, const std::string& tensor) {
  const std::string file = read_file(path);
  if (path.extension() == ".npy") return sample_of(path, parse_npy(path, file));
  if (path.extension() == ".safetensors") return sample_of(path, parse_safetensors(path, file, tensor));
  throw InputError(path.string(), "--file", "a tensor comes from a .npy or .safetensors file");
}

}  // namespace fusion::bench
