// The CUDA kernels for blockwise integers, run thread by thread, against the CPU's: the same scales, codes and values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/compress/quantise.h"
#include "tests/support/cuda_emulator.h"
// The kernels take their names from the emulator.
#include "exec/kernels/quantise.cuh"

namespace fusion::exec {
namespace {

using compress::BlockFormat;
using compress::PositionalRandom;
using Bytes = std::vector<std::byte>;

std::vector<std::uint32_t> bits(std::span<const float> x) {
  std::vector<std::uint32_t> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](float v) { return std::bit_cast<std::uint32_t>(v); });
  return out;
}

template <class Format>
constexpr BlockFormat cpu_format = Format::bits == 8 ? compress::int8_blocks : compress::int4_blocks;

template <class Format>
struct Coded {
  Coded(const float* x, std::uint64_t n, const std::optional<PositionalRandom>& random, bool aligned,
        std::uint64_t seed)
      : scales((n + Format::block - 1) / Format::block + 1, -7),
        codes((n * Format::bits + 7) / 8 + 4, 0x5a),
        decoded(n) {
    QuantiseCall call{x, n, scales.data(), codes.data(), decoded.data(), &not_finite, random.has_value(), 0};
    if (random) call.key = random->key;
    emulator::launch(QuantiseKernel<Format>{call, aligned}, 1 + static_cast<unsigned>(seed % 4), seed);
    EXPECT_EQ(scales.back(), -7) << "beyond the scales";
    for (std::size_t i = codes.size() - 4; i < codes.size(); ++i) EXPECT_EQ(codes[i], 0x5a) << "beyond the codes";
    scales.pop_back();
    codes.resize(codes.size() - 4);
  }
  Bytes payload() const {
    Bytes out;
    compress::append(out, std::span<const float>(scales));
    compress::append(out, std::span<const std::uint8_t>(codes));
    return out;
  }
  std::vector<float> scales;
  std::vector<std::uint8_t> codes;
  std::vector<float> decoded;
  unsigned long long not_finite = 0;
};

template <class Format>
void check_against_cpu(std::span<const float> x, const std::optional<PositionalRandom>& random, bool aligned,
                       std::uint64_t seed) {
  Bytes want;
  std::vector<float> want_decoded(x.size());
  compress::write_blocks(x, cpu_format<Format>, random, want, want_decoded);
  const Coded<Format> got(x.data(), x.size(), random, aligned, seed);
  ASSERT_EQ(got.payload(), want) << "n " << x.size() << " seed " << seed;
  ASSERT_EQ(bits(got.decoded), bits(want_decoded));
  ASSERT_EQ(got.not_finite, 0u);
  std::vector<float> back(x.size() + 1, -7.0f);
  std::uint32_t invalid = 0;
  const DequantiseCall call{got.scales.data(), got.codes.data(), x.size(), back.data(), &invalid};
  emulator::launch(DequantiseKernel<Format>{call, aligned}, 1 + static_cast<unsigned>(seed % 3), seed);
  ASSERT_EQ(back.back(), -7.0f) << "beyond the tensor";
  back.pop_back();
  ASSERT_EQ(bits(back), bits(want_decoded));
  ASSERT_EQ(invalid, 0u);
}

std::vector<float> random_tensor(std::size_t n, int kind, std::mt19937_64& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) switch (kind) {
      case 0:
        v = normal(rng);
        break;
      case 1:
        v = 0;
        break;
      case 2:
        v = rng() % 2 ? 0.0f : -0.0f;
        break;
      case 3:
        v = normal(rng) * 1e-44f;  // scales are subnormal
        break;
      case 4:
        v = (rng() % 2 ? 1.0f : -1.0f) * std::numeric_limits<float>::max();
        break;
      case 5:
        v = static_cast<float>(rng() % 255) - 127;  // ties and exact multiples
        break;
      case 6:
        v = static_cast<float>(rng() % 29) / 2 - 7;  // halves: ties to even
        break;
      default:
        v = std::bit_cast<float>(static_cast<std::uint32_t>(rng()) & 0xbf7fffffu);  // any finite below 2
    }
  return x;
}

template <class Format>
void check_many(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int kind = 0; kind < 8; ++kind)
    for (const std::size_t n : {0u, 1u, 3u, 31u, 32u, 33u, 255u, 256u, 257u, 1'000u, 5'003u}) {
      const auto x = random_tensor(n, kind, rng);
      check_against_cpu<Format>(x, {}, n % 2 == 0, rng());
      check_against_cpu<Format>(x, PositionalRandom(rng(), 3), true, rng());
      if (testing::Test::HasFatalFailure()) FAIL() << "kind " << kind << " n " << n;
    }
}

TEST(CudaQuantise, Int8AgreesWithTheCpu) { check_many<Int8Blocks>(1); }
TEST(CudaQuantise, Int4AgreesWithTheCpu) { check_many<Int4Blocks>(2); }

TEST(CudaQuantise, ReportsTheFirstValueThatIsNotFinite) {
  std::mt19937_64 rng(3);
  for (int round = 0; round < 20; ++round) {
    auto x = random_tensor(3'000, 0, rng);
    const std::size_t at = rng() % x.size();
    for (std::size_t i = at; i < x.size(); i += 97) x[i] = std::numeric_limits<float>::infinity();
    if (round % 2) x[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(~Coded<Int8Blocks>(x.data(), x.size(), {}, true, rng()).not_finite, at);
    EXPECT_EQ(~Coded<Int4Blocks>(x.data(), x.size(), {}, true, rng()).not_finite, at);
  }
}

TEST(CudaQuantise, ReportsAScaleThatNoWriterGives) {
  for (const float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> scales{1, bad, 1};
    const std::vector<std::uint8_t> codes(96 / 2);
    std::vector<float> out(96);
    std::uint32_t invalid = 0;
    emulator::launch(DequantiseKernel<Int4Blocks>{{scales.data(), codes.data(), 96, out.data(), &invalid}, true}, 2, 5);
    EXPECT_EQ(invalid, 1u);
  }
}

TEST(CudaQuantise, ReadsEveryNibble) {
  // Two's complement: 0 … 7 and then -8 … -1; a writer never gives -8, a reader takes it, as the CPU's does.
  const std::vector<float> scales{0.5f};
  const std::vector<std::uint8_t> codes{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  std::vector<float> out(16);
  std::uint32_t invalid = 0;
  emulator::launch(DequantiseKernel<Int4Blocks>{{scales.data(), codes.data(), 16, out.data(), &invalid}, true}, 1, 0);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(out[static_cast<std::size_t>(i)], 0.5f * static_cast<float>(i < 8 ? i : i - 16));
}

TEST(Golden, G17_CudaZerosStayZeros) {
  const std::vector<float> x(256);
  const Coded<Int8Blocks> coded(x.data(), x.size(), {}, true, 0);
  EXPECT_EQ(coded.scales, std::vector<float>{0});
  EXPECT_EQ(bits(coded.decoded), bits(x));
}

}  // namespace
}  // namespace fusion::exec
