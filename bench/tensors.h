// Tensors to compress: made by a seeded generator, or read from a file of NumPy or safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/compress/buffer.h"
#include "core/graph/graph.h"

namespace fusion::bench {

/// On huge pages, so that a read pass is bound by memory and not by address translation.
using Floats = compress::AlignedFloats;

struct Sample {
  std::string name;
  Shape shape;
  Floats values;
};

struct DistributionRow {
  std::string_view name;
  std::string_view help;
  Floats (*make)(const Shape&, std::uint64_t seed);
};

/// gaussian, laplace, rows, relu-sparse.
std::span<const DistributionRow> distribution_table();

/// Throws InputError for an unknown name, with the nearest. Rows of 4,096 where the size divides into them.
Sample make_sample(std::string_view distribution, std::int64_t elements, std::uint64_t seed);

/// `.npy` (fp32, fp16, fp64, little-endian, C order) or `.safetensors` (F32, F16, BF16). `tensor` names one of the
/// latter; the largest where it is empty. Throws InputError naming the file and what is wrong.
Sample load_sample(const std::filesystem::path&, const std::string& tensor);

}  // namespace fusion::bench
