// Blockwise integers and back, the bytes of core/compress/quantise.h: int8 in blocks of 256, int4 in blocks of 32.
//
// A warp takes 256 elements at once, in two rows of 128; a lane has four neighbours of each row. So an int8 block is a
// warp's, and an int4 block eight lanes' of one row.
//
// Two numbers at n = 10^8: int8 reads 400 MB and writes 100 MB of codes and 1.6 MB of scales (117 us at 4.3 TB/s, each
// way); int4 50 MB and 12.5 MB (108 us).
#pragma once

#include "exec/kernels/device.cuh"
#include "exec/kernels/quantise_data.h"

namespace fusion::exec {

struct Int8Blocks {
  static constexpr unsigned block = 256, lanes = 32, bits = 8;
  static constexpr float levels = 127;
};
struct Int4Blocks {
  static constexpr unsigned block = 32, lanes = 8, bits = 4;
  static constexpr float levels = 7;
};

inline constexpr unsigned quantise_group = 256;  ///< elements of a warp

/// Four codes of a lane, as the bytes of memory, the first lowest.
template <class Format>
__device__ inline std::uint32_t code_bits(std::uint32_t code, unsigned j) {
  return (code & ((1u << Format::bits) - 1)) << (Format::bits * j);
}

template <class Format>
struct QuantiseKernel {
  static constexpr unsigned threads = 256;
  static constexpr unsigned blocks_per_processor = 6;
  static constexpr bool cooperative = false;
  struct Shared {};

  QuantiseCall call;
  bool aligned = false;  ///< x and decoded at 16 bytes

  __device__ void operator()(Shared&) const {
    const Count groups = (call.n + quantise_group - 1) / quantise_group, step = Count{gridDim.x} * (threads / 32);
    for (Count g = Count{blockIdx.x} * (threads / 32) + warp(); g < groups; g += step) code_group(g * quantise_group);
  }

 private:
  __device__ void code_group(Count first) const {
    const bool whole = first + quantise_group <= call.n;
    Quad<float> x[2];
    std::uint32_t most[2];
    for (unsigned r = 0; r < 2; ++r) {
      x[r] = load(first + 128 * r + 4 * lane(), whole);
      most[r] = 0;
      for (unsigned j = 0; j < 4; ++j) most[r] = larger(most[r], magnitude_bits(x[r].at[j]));
      note_not_finite(first + 128 * r + 4 * lane(), x[r], most[r]);
    }
    if (Format::lanes == 32) most[0] = most[1] = larger(most[0], most[1]);
    for (unsigned r = 0; r < 2; ++r) {
      for (unsigned other = 1; other < Format::lanes; other *= 2)
        most[r] = larger(most[r], __shfl_xor_sync(all_lanes, most[r], other));
      code_row(first + 128 * r + 4 * lane(), whole, x[r], scale_of(__uint_as_float(most[r])));
    }
  }

  __device__ static std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

  __device__ Quad<float> load(Count at, bool whole) const {
    if (whole && aligned) return *reinterpret_cast<const Quad<float>*>(call.x + at);
    Quad<float> out;
    for (unsigned j = 0; j < 4; ++j) out.at[j] = at + j < call.n ? call.x[at + j] : 0.0f;
    return out;
  }

  __device__ void note_not_finite(Count at, const Quad<float>& x, std::uint32_t most) const {
    if (most < infinity_bits) return;
    for (unsigned j = 0; j < 4; ++j)
      if (magnitude_bits(x.at[j]) >= infinity_bits) atomicMax(call.not_finite, ~(at + j));
  }

  /// max / levels; not rounded down to zero where the maximum is subnormal, nor up so that the last level is infinite.
  __device__ static float scale_of(float most) {
    const float least = __uint_as_float(1), share = most / Format::levels;
    const float floor = most < least ? most : least, scale = share < floor ? floor : share;
    return magnitude_bits(scale * Format::levels) < infinity_bits ? scale : __uint_as_float(__float_as_uint(scale) - 1);
  }

  __device__ float rounded(float multiple, Count i) const {
    if (!call.stochastic) return (multiple + 0x1.8p23f) - 0x1.8p23f;  // to nearest, ties to even, as |multiple| < 2^22
    const Count bits = mix(call.key + i * 0xd1342543de82ef95ull);
    return floorf(multiple + static_cast<float>(bits >> 40) * 0x1p-24f);
  }

  __device__ void code_row(Count at, bool whole, const Quad<float>& x, float scale) const {
    if (at >= call.n) return;
    if (at % Format::block == 0) call.scales[at / Format::block] = scale;
    std::uint32_t packed = 0;
    Quad<float> decoded;
    for (unsigned j = 0; j < 4; ++j) {
      const float code = at + j < call.n ? code_of(x.at[j], scale, at + j) : 0.0f;
      packed |= code_bits<Format>(static_cast<std::uint32_t>(static_cast<int>(code)), j);
      decoded.at[j] = code * scale;
    }
    store(at, whole, packed);
    if (call.decoded) store_decoded(at, whole, decoded);
  }

  __device__ float code_of(float x, float scale, Count i) const {
    if (scale == 0) return 0;
    const float share = x / scale;
    const float multiple = share < -Format::levels ? -Format::levels : share > Format::levels ? Format::levels : share;
    const float code = rounded(multiple, i);
    return code < Format::levels ? code : Format::levels;
  }

  __device__ void store(Count at, bool whole, std::uint32_t packed) const {
    std::uint8_t* to = call.codes + at * Format::bits / 8;
    if (whole && Format::bits == 8) {
      *reinterpret_cast<std::uint32_t*>(to) = packed;
    } else if (whole) {
      *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(packed);
    } else {
      const Count left = (smaller(4, call.n - at) * Format::bits + 7) / 8;
      for (unsigned b = 0; b < left; ++b) to[b] = static_cast<std::uint8_t>(packed >> (8 * b));
    }
  }

  __device__ void store_decoded(Count at, bool whole, const Quad<float>& decoded) const {
    if (whole && aligned) {
      *reinterpret_cast<Quad<float>*>(call.decoded + at) = decoded;
      return;
    }
    for (unsigned j = 0; j < 4; ++j)
      if (at + j < call.n) call.decoded[at + j] = decoded.at[j];
  }
};

template <class Format>
struct DequantiseKernel {
  static constexpr unsigned threads = 256;
  static constexpr unsigned blocks_per_processor = 8;
  static constexpr bool cooperative = false;
  struct Shared {};

  DequantiseCall call;
  bool aligned = false;  ///< out at 16 bytes

  __device__ void operator()(Shared&) const {
    const Count quads = (call.n + 3) / 4, step = Count{gridDim.x} * threads;
    for (Count q = Count{blockIdx.x} * threads + threadIdx.x; q < quads; q += step) decode(4 * q);
  }

 private:
  __device__ void decode(Count at) const {
    const bool whole = at + 4 <= call.n;
    const float scale = call.scales[at / Format::block];
    if (!(scale >= 0)) atomicMax(call.invalid, 1u);
    const std::uint32_t packed = load(at, whole);
    Quad<float> out;
    for (unsigned j = 0; j < 4; ++j) {
      // The code's sign is its highest bit: up to the top, and down again.
      const auto top = static_cast<int>(packed << (32 - Format::bits * (j + 1)));
      out.at[j] = static_cast<float>(top >> (32 - Format::bits)) * scale;
    }
    if (whole && aligned) {
      *reinterpret_cast<Quad<float>*>(call.out + at) = out;
      return;
    }
    for (unsigned j = 0; j < 4; ++j)
      if (at + j < call.n) call.out[at + j] = out.at[j];
  }

  __device__ std::uint32_t load(Count at, bool whole) const {
    const std::uint8_t* from = call.codes + at * Format::bits / 8;
    if (whole && Format::bits == 8) return *reinterpret_cast<const std::uint32_t*>(from);
    if (whole) return *reinterpret_cast<const std::uint16_t*>(from);
    const Count left = ((call.n - at) * Format::bits + 7) / 8;
    std::uint32_t packed = 0;
    for (unsigned b = 0; b < left; ++b) packed |= std::uint32_t{from[b]} << (8 * b);
    return packed;
  }
};

}  // namespace fusion::exec
