// The portable kernels, plain C++: the reference for the vector ones, and what runs where there are none.
#include <algorithm>

#include "core/compress/half.h"
#include "core/compress/kernels.h"

namespace fusion::compress::detail {
namespace {

constexpr std::size_t block = 64;

template <class T, bool with_error>
void load_block(const Scan& s, std::size_t at, std::size_t length, float* out) {
  const T* x = static_cast<const T*>(s.x) + at;
  if constexpr (with_error) {
    for (std::size_t j = 0; j < length; ++j) out[j] = to_float(x[j]) + s.error[at + j];
  } else {
    for (std::size_t j = 0; j < length; ++j) out[j] = to_float(x[j]);
  }
}

bool reaches(const float* x, std::size_t length, std::uint32_t threshold) {
  const auto bound = static_cast<std::int32_t>(threshold) - 1;
  std::int32_t any = 0;
  for (std::size_t j = 0; j < length; ++j) any |= static_cast<std::int32_t>(magnitude_bits(x[j])) > bound;
  return any != 0;
}

void append(const float* x, std::size_t at, std::size_t length, std::uint32_t threshold, Candidates& c) {
  for (std::size_t j = 0; j < length; ++j) {
    c.index[c.count] = static_cast<std::uint32_t>(at + j);
    c.value[c.count] = x[j];
    c.count += magnitude_bits(x[j]) >= threshold;
  }
}

template <class T, bool with_error>
std::size_t scan(const Scan& s, Candidates& c) {
  float values[block];
  for (std::size_t at = s.begin; at < s.end; at += block) {
    if (c.count >= c.capacity) return at;
    const std::size_t length = std::min(block, s.end - at);
    load_block<T, with_error>(s, at, length, values);
    const bool any = reaches(values, length, s.threshold);
    if (any) append(values, at, length, s.threshold, c);
    if constexpr (with_error)
      for (std::size_t j = 0; j < length; ++j)
        s.residual[at + j] = any && magnitude_bits(values[j]) >= s.threshold ? 0.0f : values[j];
  }
  return s.end;
}

template <class T>
std::size_t scan_any(const Scan& s, Candidates& c) {
  return s.error ? scan<T, true>(s, c) : scan<T, false>(s, c);
}

std::size_t keep(Candidates& c, std::size_t begin, std::size_t end, std::uint32_t threshold, std::size_t out) {
  for (std::size_t i = begin; i < end; ++i) {
    const float value = c.value[i];
    c.index[out] = c.index[i];
    c.value[out] = value;
    out += magnitude_bits(value) >= threshold;
  }
  return out;
}

Extract extract(const float* x, std::size_t n, std::uint32_t lowest, std::uint32_t highest, float* out) {
  Extract done;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = magnitude_bits(x[i]);
    out[done.kept] = x[i];
    done.kept += magnitude - lowest <= highest - lowest;
    done.above += magnitude > highest;
  }
  return done;
}

std::uint32_t max_magnitude(const float* x, std::size_t n) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, magnitude_bits(x[i]));
  return most;
}

void to_half(const float* x, std::size_t n, float factor, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = compress::to_half(x[i] * factor).bits;
}

void from_half(const std::uint16_t* half, std::size_t n, float factor, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = to_float(Half{half[i]}) * factor;
}

float read_pass(const float* x, std::size_t n) {
  float sums[8] = {};
  for (std::size_t i = 0; i + 8 <= n; i += 8)
    for (std::size_t j = 0; j < 8; ++j) sums[j] += std::bit_cast<float>(magnitude_bits(x[i + j]));
  for (std::size_t i = n / 8 * 8; i < n; ++i) sums[0] += std::bit_cast<float>(magnitude_bits(x[i]));
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

void accumulate(float* e, const float* g, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) e[i] += g[i];
}

}  // namespace

const Kernels& scalar_kernels() {
  static constexpr Kernels table{scan_any<float>, scan_any<Half>, scan_any<BFloat16>, keep,      extract,
                                 max_magnitude,   to_half,        from_half,          read_pass, accumulate};
  return table;
}

}  // namespace fusion::compress::detail
