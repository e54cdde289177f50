// The CUDA kernels for sparse messages, run thread by thread, against the CPU's: the same bytes, in every order of
// blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/compress/index_format.h"
#include "tests/support/cuda_emulator.h"
// The kernels take their names from the emulator.
#include "exec/kernels/byte_delta.cuh"
#include "exec/kernels/scatter.cuh"

namespace fusion::exec {
namespace {

using compress::IndexFormat;
using Indices = std::vector<std::uint64_t>;

/// `count` of `elements`, ascending, no two alike; gathered in one place where `clustered`.
Indices random_indices(std::uint64_t count, std::uint64_t elements, bool clustered, std::mt19937_64& rng) {
  const std::uint64_t range = clustered ? std::min(elements, 2 * count + 1) : elements;
  const std::uint64_t first = rng() % (elements - range + 1);
  std::vector<std::uint64_t> all(range);
  std::iota(all.begin(), all.end(), first);
  Indices chosen;
  std::sample(all.begin(), all.end(), std::back_inserter(chosen), count, rng);
  return chosen;
}

std::vector<std::uint8_t> on_cpu(const Indices& index, std::uint64_t elements) {
  std::vector<std::byte> bytes;
  compress::write_index(IndexFormat::byte_delta, index, elements, elements, bytes);
  std::vector<std::uint8_t> out(bytes.size());
  std::transform(bytes.begin(), bytes.end(), out.begin(), [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return out;
}

std::vector<std::uint8_t> packed(const Indices& index, std::uint64_t elements, unsigned blocks, std::uint64_t seed) {
  constexpr std::size_t beyond = 5;
  const std::uint64_t room = byte_delta_capacity(index.size(), elements), count = index.size();
  std::vector<std::uint8_t> bytes(room + beyond, 0x5a);
  std::vector<unsigned long long> totals(blocks, 99);
  std::uint64_t size = 99;
  emulator::launch(PackKernel{{index.data(), &count, elements, bytes.data(), &size, totals.data()}}, blocks, seed);
  EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(room), bytes.end(),
                          [](std::uint8_t b) { return b == 0x5a; }));
  EXPECT_LE(size, room);
  bytes.resize(std::min(size, room));
  return bytes;
}

struct Unpacked {
  bool valid;
  Indices index;
};

Unpacked unpacked(const std::vector<std::uint8_t>& bytes, std::uint64_t count, std::uint64_t elements, unsigned blocks,
                  std::uint64_t seed) {
  Indices index(count + 3, 77);
  std::vector<unsigned long long> totals(2 * blocks, 99);
  std::uint32_t valid = 99;
  const UnpackCall call{bytes.data(), bytes.size(), count, elements, index.data(), &valid, totals.data()};
  emulator::launch(UnpackKernel{call}, blocks, seed);
  EXPECT_LE(valid, 1u);
  for (std::size_t i = valid == 1 ? count : 0; i < index.size(); ++i) EXPECT_EQ(index[i], 77u) << "beyond the result";
  index.resize(count);
  return {valid == 1, index};
}

TEST(CudaByteDelta, WritesTheCpusBytesAndReadsThemBack) {
  std::mt19937_64 rng(1);
  for (std::uint64_t seed = 0; seed < 36; ++seed) {
    const std::uint64_t elements = 1 + rng() % 200'000;
    const std::uint64_t count = rng() % (seed % 3 == 0 ? std::min<std::uint64_t>(elements, 8'000) : elements / 50 + 1);
    const Indices index = random_indices(count, elements, seed % 2 == 1, rng);
    const unsigned blocks = 1 + static_cast<unsigned>(rng() % 5);
    const auto want = on_cpu(index, elements);
    ASSERT_EQ(packed(index, elements, blocks, seed), want)
        << "n " << elements << " k " << count << " blocks " << blocks;
    const Unpacked back = unpacked(want, count, elements, blocks, seed);
    ASSERT_TRUE(back.valid);
    ASSERT_EQ(back.index, index);
  }
}

TEST(CudaByteDelta, EscapesGapsOf255) {
  // The gap before 254 is 254: one byte. Before 510 it is 255: "255 more", then 0. Before 511 + 510 it is 510.
  const Indices index{254, 510, 1021};
  EXPECT_EQ(packed(index, 1022, 2, 3), (std::vector<std::uint8_t>{254, 255, 0, 255, 255, 0}));
  EXPECT_EQ(unpacked({254, 255, 0, 255, 255, 0}, 3, 1022, 2, 3).index, index);
}

TEST(CudaByteDelta, TakesAllElementsAndNone) {
  Indices all(5'000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(packed(all, all.size(), 3, 1), std::vector<std::uint8_t>(5'000, 0));
  EXPECT_EQ(unpacked(std::vector<std::uint8_t>(5'000, 0), 5'000, 5'000, 3, 1).index, all);
  EXPECT_TRUE(packed({}, 5'000, 3, 1).empty());
  EXPECT_TRUE(unpacked({}, 0, 5'000, 3, 1).valid);
  EXPECT_TRUE(unpacked({}, 0, 0, 1, 1).valid);
}

TEST(CudaByteDelta, WritesNothingForHostileBytes) {
  const std::vector<std::uint8_t> good{1, 255, 3, 0};  // 1, 260, 261
  EXPECT_TRUE(unpacked(good, 3, 262, 2, 5).valid);
  EXPECT_FALSE(unpacked(good, 3, 261, 2, 5).valid) << "the last index is 261";
  EXPECT_FALSE(unpacked(good, 2, 262, 2, 5).valid) << "more indices than promised";
  EXPECT_FALSE(unpacked(good, 4, 262, 2, 5).valid) << "fewer";
  EXPECT_FALSE(unpacked({1, 255, 3, 0, 255}, 3, 10'000, 2, 5).valid) << "an escape that leads nowhere";
  EXPECT_FALSE(unpacked({}, 1, 10, 2, 5).valid);
}

TEST(CudaByteDelta, AgreesWithTheCpuOnRandomBytes) {
  std::mt19937_64 rng(2);
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<std::uint8_t> bytes(rng() % 40);
    std::uint64_t ends = 0;
    for (std::uint8_t& b : bytes) ends += (b = static_cast<std::uint8_t>(rng() % 3 == 0 ? 255 : rng() % 50)) != 255;
    const std::uint64_t count = ends + (rng() % 8 == 0), elements = 1 + rng() % 4'000;
    Indices want(count);
    bool valid = true;
    try {
      compress::read_index(IndexFormat::byte_delta, std::as_bytes(std::span(bytes)), elements, want);
    } catch (const std::runtime_error&) {
      valid = false;
    }
    const Unpacked got = unpacked(bytes, count, elements, 3, seed);
    ASSERT_EQ(got.valid, valid) << "seed " << seed;
    if (valid) {
      ASSERT_EQ(got.index, want);
    }
    accepted += valid;
  }
  EXPECT_GT(accepted, 15) << "the comparison should see both";
}

TEST(CudaScatter, PutsAndAdds) {
  std::mt19937_64 rng(3);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint64_t elements = 1 + rng() % 20'000, count = rng() % std::min<std::uint64_t>(elements, 3'000);
    const Indices index = random_indices(count, elements, false, rng);
    std::vector<float> value(count), put(elements, -1.0f);
    for (float& v : value) v = static_cast<float>(rng() % 1000) / 7 - 50;
    std::vector<float> want = put;
    for (std::size_t i = 0; i < count; ++i) want[index[i]] = value[i];
    const unsigned blocks = 1 + static_cast<unsigned>(seed % 3);
    emulator::launch(ScatterKernel{index.data(), value.data(), &count, put.data(), false}, blocks, seed);
    ASSERT_EQ(put, want) << "seed " << seed;
    for (std::size_t i = 0; i < count; ++i) want[index[i]] += value[i];
    emulator::launch(ScatterKernel{index.data(), value.data(), &count, put.data(), true}, blocks, seed);
    ASSERT_EQ(put, want) << "seed " << seed;
  }
}

}  // namespace
}  // namespace fusion::exec
