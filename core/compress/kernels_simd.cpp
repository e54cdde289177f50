// The vector kernels: one source, compiled once per instruction set by Highway, chosen at run time.
//
// A sparse scan works in two steps per chunk, so that neither waits for a branch: first the comparison bits of the
// whole chunk, 64 to a word; then each word's first two positions are stored without asking whether they exist. A
// dense scan compresses in registers and then stores whole vectors (storing through a mask is slow on some chips).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/compress/kernels_simd.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must stand before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/compress/half.h"
#include "core/compress/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fusion::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using U = hn::RebindToUnsigned<F>;
constexpr F f;
constexpr U u;

HWY_ATTR inline auto load(const float* x) { return hn::LoadU(f, x); }
HWY_ATTR inline auto load(const Half* x) {
  return hn::PromoteTo(f, hn::LoadU(hn::Rebind<hwy::float16_t, F>(), reinterpret_cast<const hwy::float16_t*>(x)));
}
HWY_ATTR inline auto load(const BFloat16* x) {
  return hn::PromoteTo(f, hn::LoadU(hn::Rebind<hwy::bfloat16_t, F>(), reinterpret_cast<const hwy::bfloat16_t*>(x)));
}

/// What `reaches` compares with. Signed: magnitudes are below 2^31, and AVX2 has no unsigned comparison.
HWY_ATTR inline auto bound_of(std::uint32_t threshold) {
  return hn::Set(hn::RebindToSigned<F>(), static_cast<std::int32_t>(threshold) - 1);
}

/// Where |v| reaches the threshold of the bound.
template <class V, class B>
HWY_ATTR inline auto reaches(V v, B bound) {
  const hn::RebindToSigned<F> i;
  const auto magnitude = hn::And(hn::BitCast(i, v), hn::Set(i, 0x7fffffff));
  return hn::RebindMask(f, hn::Gt(magnitude, bound));
}

template <class M>
HWY_ATTR inline std::uint64_t bits_of(M mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(f, mask, bytes);
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if HWY_TARGET == HWY_AVX2
/// AVX2 has no compress: byte j of entry m is the lane of m's j-th set bit. (Highway's own table is a local array that
/// GCC copies at every call.)
constexpr auto set_lanes = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t m = 0; m < 256; ++m)
    for (std::uint8_t lane = 0, next = 0; lane < 8; ++lane)
      if (m >> lane & 1) table[m][next++] = lane;
  return table;
}();
#endif

/// Brings the lanes that a mask names to the front.
#if HWY_TARGET == HWY_AVX2
struct Pack {
  std::uint64_t bits;
  hn::Indices256<std::uint32_t> order;

  template <class M>
  explicit Pack(M mask)
      : bits(bits_of(mask)),
        order(hn::IndicesFromVec(u,
                                 hn::PromoteTo(u, hn::LoadU(hn::Rebind<std::uint8_t, U>(), set_lanes[bits].data())))) {}
  auto operator()(hn::Vec<U> v) const { return hn::TableLookupLanes(v, order); }
  auto operator()(hn::Vec<F> v) const { return hn::BitCast(f, hn::TableLookupLanes(hn::BitCast(u, v), order)); }
  std::size_t count() const { return static_cast<std::size_t>(std::popcount(bits)); }
};
#else
struct Pack {
  hn::Mask<F> mask;

  explicit Pack(hn::Mask<F> m) : mask(m) {}
  auto operator()(hn::Vec<U> v) const { return hn::Compress(v, hn::RebindMask(u, mask)); }
  auto operator()(hn::Vec<F> v) const { return hn::Compress(v, mask); }
  std::size_t count() const { return hn::CountTrue(f, mask); }
};
#endif

/// The scan's input at position i, and its output. Holds copies of the scan's fields: stores through other pointers
/// must not make the compiler load them again.
template <class T, bool with_error>
struct Stream {
  explicit Stream(const Scan& s)
      : x(static_cast<const T*>(s.x)),
        error(s.error),
        residual(s.residual),
        threshold(s.threshold),
        past_cache(s.stream) {}

  const T* x;
  const float* error;
  float* residual;
  std::uint32_t threshold;
  bool past_cache;

  HWY_ATTR auto vector(std::size_t i) const {
    if constexpr (with_error) return hn::Add(load(x + i), hn::LoadU(f, error + i));
    if constexpr (!with_error) return load(x + i);
  }
  /// The 64 elements from i on: memory must not idle while positions are sorted out. Harmless beyond the end.
  HWY_ATTR void prefetch(std::size_t i) const {
    for (std::size_t line = 0; line < 64; line += 64 / sizeof(T)) hwy::Prefetch(x + i + line);
    if constexpr (with_error)
      for (std::size_t line = 0; line < 64; line += 64 / sizeof(float)) hwy::Prefetch(error + i + line);
  }
  float scalar(std::size_t i) const {
    if constexpr (with_error) return to_float(x[i]) + error[i];
    if constexpr (!with_error) return to_float(x[i]);
  }
  template <class V, class M>
  HWY_ATTR void store(std::size_t i, V v, M taken) const {
    if constexpr (with_error) {
      const auto left = hn::IfThenZeroElse(taken, v);
      if (past_cache) {
        hn::Stream(left, f, residual + i);
      } else {
        hn::StoreU(left, f, residual + i);
      }
    }
  }
};

template <class T, bool with_error>
HWY_ATTR void append_tail(const Stream<T, with_error>& in, std::size_t begin, std::size_t end, Candidates& c) {
  for (std::size_t i = begin; i < end; ++i) {
    const float value = in.scalar(i);
    const bool taken = magnitude_bits(value) >= in.threshold;
    c.index[c.count] = static_cast<std::uint32_t>(i);
    c.value[c.count] = value;
    c.count += taken;
    if constexpr (with_error) in.residual[i] = taken ? 0.0f : value;
  }
}

/// Positions of the set bits. Writes two whether or not they exist, so that only a third costs a branch.
inline std::size_t append_positions(std::uint64_t word, std::uint32_t at, std::uint32_t* out) {
  const auto count = static_cast<std::size_t>(std::popcount(word));
  out[0] = at + static_cast<std::uint32_t>(std::countr_zero(word));
  word &= word - 1;
  out[1] = at + static_cast<std::uint32_t>(std::countr_zero(word));
  word &= word - 1;
  for (std::size_t j = 2; word != 0; word &= word - 1)
    out[j++] = at + static_cast<std::uint32_t>(std::countr_zero(word));
  return count;
}

template <class T, bool with_error>
HWY_ATTR void scan_chunk_sparse(Stream<T, with_error> in, std::size_t begin, std::size_t words, Candidates& c) {
  const std::size_t lanes = hn::Lanes(f);
  const auto bound = bound_of(in.threshold);
  std::uint64_t found[scan_chunk / 64];
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < 64; j += lanes) {
      const std::size_t i = begin + 64 * w + j;
      const auto v = in.vector(i);
      const auto taken = reaches(v, bound);
      in.store(i, v, taken);
      word |= bits_of(taken) << j;
    }
    found[w] = word;
  }
  std::uint32_t* const first = c.index + c.count;
  std::uint32_t* out = first;
  for (std::size_t w = 0; w < words; ++w) {
    in.prefetch(begin + scan_chunk + 64 * w);
    out += append_positions(found[w], static_cast<std::uint32_t>(begin + 64 * w), out);
  }
  float* const value = c.value + c.count;
  const auto added = static_cast<std::size_t>(out - first);
  for (std::size_t k = 0; k < added; ++k) value[k] = in.scalar(first[k]);
  c.count += added;
}

template <class T, bool with_error>
HWY_ATTR void scan_chunk_dense(Stream<T, with_error> in, std::size_t begin, std::size_t words, Candidates& c) {
  const std::size_t lanes = hn::Lanes(f);
  const auto bound = bound_of(in.threshold);
  const auto step = hn::Set(u, static_cast<std::uint32_t>(lanes));
  auto positions = hn::Iota(u, static_cast<std::uint32_t>(begin));
  float* value = c.value + c.count;
  std::uint32_t* index = c.index + c.count;
  for (std::size_t i = begin; i < begin + 64 * words; i += lanes) {
    const auto v = in.vector(i);
    const auto taken = reaches(v, bound);
    in.store(i, v, taken);
    const Pack pack(taken);
    hn::StoreU(pack(v), f, value);
    hn::StoreU(pack(positions), u, index);
    value += pack.count();
    index += pack.count();
    positions = hn::Add(positions, step);
  }
  c.count = static_cast<std::size_t>(value - c.value);
}

template <class T, bool with_error>
HWY_ATTR std::size_t scan(const Scan& s, Candidates& c) {
  const Stream<T, with_error> in(s);
  for (std::size_t at = s.begin; at < s.end;) {
    if (c.count >= c.capacity) return at;
    const std::size_t end = std::min(at + scan_chunk, s.end), words = (end - at) / 64;
    if (s.dense) {
      scan_chunk_dense(in, at, words, c);
    } else {
      scan_chunk_sparse(in, at, words, c);
    }
    append_tail(in, at + 64 * words, end, c);
    at = end;
  }
  if (s.stream) hwy::FlushStream();
  return s.end;
}

template <class T>
HWY_ATTR std::size_t scan_any(const Scan& s, Candidates& c) {
  return s.error ? scan<T, true>(s, c) : scan<T, false>(s, c);
}

HWY_ATTR std::size_t keep(Candidates& c, std::size_t begin, std::size_t end, std::uint32_t threshold, std::size_t out) {
  const std::size_t lanes = hn::Lanes(f);
  const auto bound = bound_of(threshold);
  std::size_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto v = hn::LoadU(f, c.value + i);
    const Pack pack(reaches(v, bound));
    hn::StoreU(pack(v), f, c.value + out);
    hn::StoreU(pack(hn::LoadU(u, c.index + i)), u, c.index + out);
    out += pack.count();
  }
  for (; i < end; ++i) {
    const float value = c.value[i];
    c.index[out] = c.index[i];
    c.value[out] = value;
    out += magnitude_bits(value) >= threshold;
  }
  return out;
}

HWY_ATTR Extract extract(const float* x, std::size_t n, std::uint32_t lowest, std::uint32_t highest, float* out) {
  const std::size_t lanes = hn::Lanes(f);
  const auto low = bound_of(lowest), high = bound_of(highest + 1);
  Extract done;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(f, x + i);
    const auto above = reaches(v, high);
    const Pack pack(hn::AndNot(above, reaches(v, low)));
    hn::StoreU(pack(v), f, out + done.kept);
    done.kept += pack.count();
    done.above += hn::CountTrue(f, above);
  }
  for (; i < n; ++i) {
    const std::uint32_t magnitude = magnitude_bits(x[i]);
    out[done.kept] = x[i];
    done.kept += magnitude - lowest <= highest - lowest;
    done.above += magnitude > highest;
  }
  return done;
}

HWY_ATTR std::uint32_t max_magnitude(const float* x, std::size_t n) {
  const std::size_t lanes = hn::Lanes(f);
  const hn::RebindToSigned<F> s;
  const auto mask = hn::Set(s, 0x7fffffff);
  auto most = hn::Zero(s);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) most = hn::Max(most, hn::And(hn::BitCast(s, hn::LoadU(f, x + i)), mask));
  auto result = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(s, most)));
  for (; i < n; ++i) result = std::max(result, magnitude_bits(x[i]));
  return result;
}

HWY_ATTR void to_half(const float* x, std::size_t n, float factor, std::uint16_t* out) {
  const std::size_t lanes = hn::Lanes(f);
  const hn::Rebind<hwy::float16_t, F> h;
  const auto scale = hn::Set(f, factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(h, hn::Mul(hn::LoadU(f, x + i), scale)), h, reinterpret_cast<hwy::float16_t*>(out + i));
  for (; i < n; ++i) out[i] = compress::to_half(x[i] * factor).bits;
}

HWY_ATTR void from_half(const std::uint16_t* half, std::size_t n, float factor, float* out) {
  const std::size_t lanes = hn::Lanes(f);
  const auto scale = hn::Set(f, factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(load(reinterpret_cast<const Half*>(half + i)), scale), f, out + i);
  for (; i < n; ++i) out[i] = to_float(Half{half[i]}) * factor;
}

HWY_ATTR float read_pass(const float* x, std::size_t n) {
  const std::size_t lanes = hn::Lanes(f);
  auto a = hn::Zero(f), b = a, c = a, d = a;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Add(a, hn::Abs(hn::LoadU(f, x + i)));
    b = hn::Add(b, hn::Abs(hn::LoadU(f, x + i + lanes)));
    c = hn::Add(c, hn::Abs(hn::LoadU(f, x + i + 2 * lanes)));
    d = hn::Add(d, hn::Abs(hn::LoadU(f, x + i + 3 * lanes)));
  }
  float sum = hn::GetLane(hn::SumOfLanes(f, hn::Add(hn::Add(a, b), hn::Add(c, d))));
  for (; i < n; ++i) sum += std::bit_cast<float>(magnitude_bits(x[i]));
  return sum;
}

HWY_ATTR void accumulate(float* e, const float* g, std::size_t n) {
  const std::size_t lanes = hn::Lanes(f);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(f, e + i), hn::LoadU(f, g + i)), f, e + i);
  for (; i < n; ++i) e[i] += g[i];
}

const Kernels& table() {
  static constexpr Kernels functions{scan_any<float>, scan_any<Half>, scan_any<BFloat16>, keep,      extract,
                                     max_magnitude,   to_half,        from_half,          read_pass, accumulate};
  return functions;
}

}  // namespace HWY_NAMESPACE
}  // namespace fusion::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <vector>

#include "core/base/error.h"

namespace fusion::compress {
namespace {

HWY_EXPORT(table);

struct Row {
  Target target;
  std::string_view name;
  std::int64_t bit;  ///< Highway's name of it; 0 for the portable kernels
};

constexpr Row rows[] = {{Target::scalar, "scalar", 0},
#if HWY_ARCH_X86
                        {Target::avx2, "avx2", HWY_AVX2},
                        {Target::avx512, "avx512", HWY_AVX3}
#elif HWY_ARCH_ARM_A64
                        {Target::neon, "neon", HWY_NEON}
#endif
};

const Row& row_of(Target target) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.target == target; });
  check(row != std::end(rows), "an instruction set of another architecture");
  return *row;
}

}  // namespace

std::string_view name_of(Target target) { return row_of(target).name; }

std::span<const Target> supported_targets() {
  static const std::vector<Target> supported = [] {
    std::vector<Target> found;
    for (const Row& row : rows)
      if (row.bit == 0 || (hwy::SupportedTargets() & HWY_TARGETS & row.bit) != 0) found.push_back(row.target);
    return found;
  }();
  return supported;
}

const Kernels& kernels(Target target) {
  const Row& row = row_of(target);
  if (row.bit == 0) return detail::scalar_kernels();
  const auto supported = supported_targets();  // asked once: the question traps in a virtual machine
  check(std::find(supported.begin(), supported.end(), target) != supported.end(),
        "an instruction set that this processor lacks");
  hwy::ChosenTarget chosen;  // our own, so that forcing a target changes nothing for others
  chosen.Update(row.bit);
  return HWY_DISPATCH_TABLE(table)[chosen.GetIndex()]();
}

}  // namespace fusion::compress
#endif  // HWY_ONCE
