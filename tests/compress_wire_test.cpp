// The wire format: what is written is read, in few bytes; what is damaged is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "core/compress/wire.h"

namespace fusion::compress {
namespace {

constexpr IndexFormat sparse_formats[] = {IndexFormat::raw32, IndexFormat::raw64, IndexFormat::byte_delta,
                                          IndexFormat::rice, IndexFormat::bitmap};
constexpr ValueFormat value_formats[] = {ValueFormat::fp32, ValueFormat::fp16, ValueFormat::bf16, ValueFormat::int8_log,
                                         ValueFormat::int4_log};

/// Each element kept with probability `keep`, Gaussian values.
Selection random_selection(std::uint64_t elements, double keep, std::mt19937_64& rng) {
  Selection s;
  s.elements = elements;
  std::bernoulli_distribution kept(keep);
  std::normal_distribution<float> normal;
  for (std::uint64_t i = 0; i < elements; ++i)
    if (kept(rng)) {
      s.index.push_back(i);
      s.value.push_back(normal(rng));
    }
  return s;
}

Shape flat(const Selection& s) { return {static_cast<std::int64_t>(s.elements)}; }

Message read(std::span<const std::byte> bytes) {
  Message m;
  read_message(bytes, m);
  return m;
}

TEST(Wire, ReadsBackEveryFormatAtEveryDensity) {
  std::mt19937_64 rng(1);
  std::vector<std::byte> bytes;
  std::vector<float> sent;
  for (const double keep : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0})
    for (const std::uint64_t elements : {0u, 1u, 7u, 64u, 5'000u, 70'003u}) {
      const Selection s = random_selection(elements, keep, rng);
      for (const auto index : sparse_formats)
        for (const auto value : value_formats) {
          write_message(s, DType::fp16, flat(s), {value, index}, bytes, &sent);
          const Message m = read(bytes);
          ASSERT_EQ(m.index, s.index);
          ASSERT_EQ(m.value, sent) << "the sender must know what the reader sees";
          ASSERT_EQ(m.shape, flat(s));
          ASSERT_EQ(m.dtype, DType::fp16);
          ASSERT_EQ(m.index_format, index);
          ASSERT_EQ(m.index_section + m.value_section + 56 + 8, bytes.size());
        }
    }
}

TEST(Wire, TheSmallestFormatIsChosen) {
  std::mt19937_64 rng(2);
  std::vector<std::byte> bytes, other;
  for (const double keep : {0.0001, 0.01, 0.1, 0.3, 0.6, 0.95})
    for (const auto value : value_formats) {
      const Selection s = random_selection(50'000, keep, rng);
      write_message(s, DType::fp32, flat(s), {value, {}}, bytes);
      for (const auto index : sparse_formats) {
        write_message(s, DType::fp32, flat(s), {value, index}, other);
        EXPECT_LE(static_cast<double>(bytes.size()), 1.02 * static_cast<double>(other.size())) << keep;
      }
      EXPECT_LE(bytes.size(), 64 + value_bytes(value, s.elements)) << "never larger than dense";
    }
}

// Rice's size is estimated from mean gaps, which mislead where gaps are nothing or huge: each huge one takes an escape
// of 89 bits. What was written is compared again, so that a message never exceeds the sizes that are known exactly.
TEST(Wire, AMisleadingEstimateIsNoticed) {
  std::mt19937_64 rng(14);
  std::vector<std::byte> bytes, other;
  for (int round = 0; round < 300; ++round) {
    Selection s;
    std::uint64_t next = 0;
    const auto run = rng() % 40 + 1, jump = std::uint64_t{1} << rng() % 16;
    for (int i = 0; i < 2'000; ++i) {
      next += static_cast<std::uint64_t>(i) % run == 0 ? rng() % jump : 0;
      s.index.push_back(next++);
      s.value.push_back(1);
    }
    s.elements = next + rng() % 1000;
    write_message(s, DType::fp32, flat(s), {ValueFormat::int8_log, {}}, bytes);
    for (const auto index : {IndexFormat::none, IndexFormat::raw32, IndexFormat::byte_delta, IndexFormat::bitmap}) {
      write_message(s, DType::fp32, flat(s), {ValueFormat::int8_log, index}, other);
      ASSERT_LE(bytes.size(), other.size()) << run << " " << jump;
    }
    ASSERT_LE(bytes.size(), message_size(flat(s), s.index.size(), {ValueFormat::int8_log, {}}).most);
    const Message m = read(bytes);
    ASSERT_TRUE(m.dense() || m.index == s.index);
  }
}

TEST(Wire, FallsBackToDenseAndStillTellsWhatWasSent) {
  std::mt19937_64 rng(3);
  const Selection s = random_selection(10'000, 0.97, rng);
  std::vector<std::byte> bytes;
  std::vector<float> sent, tensor(s.elements);
  write_message(s, DType::fp32, flat(s), {ValueFormat::int8_log, {}}, bytes, &sent);
  const Message m = read(bytes);
  EXPECT_TRUE(m.dense());
  scatter(m, tensor);
  ASSERT_EQ(sent.size(), s.index.size());
  for (std::size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(tensor[s.index[i]], sent[i]);
  EXPECT_EQ(std::count(tensor.begin(), tensor.end(), 0.0f), static_cast<std::ptrdiff_t>(s.elements - s.index.size()));
}

/// log2 C(n, k) / k in bits per index.
double entropy_bits(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0) / k;
}

TEST(Wire, RiceComesWithinTwoPercentOfTheEntropyOfAUniformSupport) {
  std::mt19937_64 rng(4);
  std::vector<std::byte> bytes;
  for (const double keep : {0.001, 0.01, 0.1}) {
    const Selection s = random_selection(4'000'000, keep, rng);
    const auto k = static_cast<double>(s.index.size());
    write_message(s, DType::fp32, {2000, 2000}, {ValueFormat::fp16, IndexFormat::rice}, bytes);
    EXPECT_LE(8 * static_cast<double>(read(bytes).index_section) / k, 1.02 * entropy_bits(4e6, k)) << keep;
  }
}

TEST(Wire, OnePercentCosts302And202BytesPerKeptElement) {
  std::mt19937_64 rng(5);
  std::vector<float> x(1 << 22);  // the header's 72 bytes must not count: 0.002 per kept element
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(rng);
  Selection s;
  TopkWorkspace workspace;
  top_k<float>(x, x.size() / 100, s, workspace);
  std::vector<std::byte> bytes;
  std::vector<float> sent;
  const auto per_kept = [&] { return static_cast<double>(bytes.size()) / static_cast<double>(s.index.size()); };
  write_message(s, DType::fp32, {2048, 2048}, {ValueFormat::fp16, {}}, bytes);
  EXPECT_LE(per_kept(), 3.02);
  write_message(s, DType::fp32, {2048, 2048}, {ValueFormat::int8_log, {}}, bytes, &sent);
  EXPECT_LE(per_kept(), 2.02);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    error += std::pow(static_cast<double>(sent[i] - s.value[i]), 2);
    norm += std::pow(static_cast<double>(s.value[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / norm), 0.003);
}

TEST(Wire, RowsOfUnequalDensityGoBelowTheUniformBound) {
  // One row in 20 holds most of what is kept.
  std::mt19937_64 rng(6);
  Selection s;
  s.elements = 1024 * 2048;
  for (std::uint64_t i = 0; i < s.elements; ++i)
    if (rng() % 10'000 < ((i / 2048) % 20 == 0 ? 1'800u : 10u)) s.index.push_back(i);
  s.value.assign(s.index.size(), 1.0f);
  std::vector<std::byte> bytes;
  write_message(s, DType::fp32, {1024, 2048}, {ValueFormat::fp16, {}}, bytes);
  const Message m = read(bytes);
  const auto k = static_cast<double>(s.index.size());
  EXPECT_EQ(m.index_format, IndexFormat::rice);
  EXPECT_LT(8 * static_cast<double>(m.index_section) / k, 0.7 * entropy_bits(1024 * 2048.0, k));
}

TEST(Wire, GapsOfAnyLengthSurvive) {
  Selection s;
  s.elements = std::uint64_t{1} << 40;
  s.index = {0, 1, 2, 255, 256, 511, 512, 70'000, 70'001, std::uint64_t{1} << 33, (std::uint64_t{1} << 40) - 1};
  s.value.assign(s.index.size(), -2.0f);
  std::vector<std::byte> bytes;
  for (const auto format : {IndexFormat::raw64, IndexFormat::rice}) {
    write_message(s, DType::bf16, flat(s), {ValueFormat::fp32, format}, bytes);
    EXPECT_EQ(read(bytes).index, s.index);
  }
  write_message(s, DType::bf16, flat(s), {}, bytes);
  EXPECT_EQ(read(bytes).index, s.index);
  EXPECT_LE(bytes.size(), 64u + 11 * 10);
}

TEST(Wire, BytesLieWhereTheHeaderSaysTheyDo) {
  // Elements 1 and 258 of a [2, 200] tensor, byte delta: gaps 1 and 256 = 255 + 1, so 01 ff 01. fp16 of {2, -1}: the
  // largest, 2, is brought to 2^14 by the scale 2^-13, so that 2 is 0x7400 (2^14) and -1 is 0xf000 (-2^13).
  Selection s{.elements = 400, .index = {1, 258}, .value = {2, -1}};
  std::vector<std::byte> bytes;
  write_message(s, DType::bf16, {2, 200}, {ValueFormat::fp16, IndexFormat::byte_delta}, bytes);
  const std::vector<int> want_head = {'F', 'L', 'N', 'W', 1, 2, 3, 1, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0,
                                      0,   0,   3,   0,   0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x39};
  const std::vector<int> want_body = {2, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 1, 255, 1, 0, 0x74, 0, 0xf0};
  std::vector<int> head, body;
  for (std::size_t i = 0; i < 44; ++i) head.push_back(static_cast<int>(bytes[i]));
  for (std::size_t i = 56; i < bytes.size(); ++i) body.push_back(static_cast<int>(bytes[i]));
  EXPECT_EQ(head, want_head);
  EXPECT_EQ(body, want_body);
}

TEST(Wire, ValuesOfAnyMagnitudeKeepTheirPrecision) {
  std::vector<std::byte> bytes;
  std::vector<float> sent;
  for (const float unit : {1e-30f, 1e-9f, 1.0f, 1e6f, 3e37f}) {
    const std::vector<float> x = {unit, -1.5f * unit, 9 * unit, 0, -0.0f, 2.75f * unit};
    const double bounds[] = {0, 0x1p-11, 0x1p-8, 0.0088, 0.21};  // int4: ratio 9^(1/6) = 1.442, half of it less one
    for (std::size_t f = 0; f < std::size(value_formats); ++f) {
      write_dense_message(x, DType::fp32, {6}, value_formats[f], bytes, &sent);
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_LE(std::abs(static_cast<double>(sent[i]) - static_cast<double>(x[i])),
                  (bounds[f] + 1e-7) * std::abs(static_cast<double>(x[i])) * 1.1)
            << "format " << f << " value " << x[i];
    }
  }
}

TEST(Wire, TheLargestFiniteValueStaysFinite) {
  const std::vector<float> x = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::denorm_min()};
  std::vector<std::byte> bytes;
  std::vector<float> sent;
  for (const auto format : value_formats) {
    write_dense_message(x, DType::fp32, {3}, format, bytes, &sent);
    EXPECT_EQ(read(bytes).value, sent);
    EXPECT_NEAR(sent[0] / x[0], 1, 0.01);
  }
}

TEST(Golden, G17_ZerosStayExactlyZeroInEveryFormat) {
  const std::vector<float> x(256);
  std::vector<std::byte> bytes;
  for (const auto format : value_formats) {
    write_dense_message(x, DType::fp32, {256}, format, bytes);
    EXPECT_EQ(read(bytes).value, x);
  }
}

/// A message after damage: refused, or still a proper message.
void expect_refused_or_sound(std::vector<std::byte> bytes, Message& m) {
  if (bytes.size() >= 56) {
    const std::uint64_t sum = message_checksum(bytes);  // an attacker knows how to count
    std::memcpy(bytes.data() + 48, &sum, 8);
  }
  try {
    read_message(bytes, m);
  } catch (const RuntimeFault&) {
    return;
  }
  const auto elements = elements_of(m.shape);
  ASSERT_TRUE(m.dense() ? m.value.size() == elements : m.index.size() == m.value.size());
  for (std::size_t i = 0; i < m.index.size(); ++i) {
    ASSERT_LT(m.index[i], elements);
    ASSERT_TRUE(i == 0 || m.index[i - 1] < m.index[i]);
  }
  for (const float v : m.value) ASSERT_TRUE(std::isfinite(v));
}

TEST(WireHostile, DamageWithARightChecksumIsRefusedOrHarmless) {
  std::mt19937_64 rng(7);
  std::vector<std::byte> bytes;
  Message m;
  for (const auto index : sparse_formats)
    for (const auto value : value_formats) {
      const Selection s = random_selection(900, 0.05, rng);
      write_message(s, DType::fp32, {30, 30}, {value, index}, bytes);
      for (std::size_t length = 0; length < bytes.size(); ++length)
        expect_refused_or_sound({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}, m);
      for (int round = 0; round < 2'000; ++round) {
        auto damaged = bytes;
        for (auto hits = rng() % 3 + 1; hits > 0; --hits) {
          const std::byte extremes[] = {std::byte{0}, std::byte{255}, std::byte{127}, std::byte(rng() % 256)};
          damaged[rng() % (rng() % 2 ? 72 : damaged.size())] = extremes[rng() % 4];
        }
        if (rng() % 4 == 0) damaged.resize(damaged.size() + rng() % 20, std::byte(rng() % 256));
        expect_refused_or_sound(damaged, m);
        if (HasFatalFailure()) return;
      }
    }
}

TEST(WireHostile, EveryFlippedBitIsNoticed) {
  std::mt19937_64 rng(8);
  std::vector<std::byte> bytes;
  const Selection s = random_selection(2'000, 0.02, rng);
  write_message(s, DType::fp32, flat(s), {}, bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(read(damaged), RuntimeFault);
  }
}

TEST(WireHostile, AHugeClaimAllocatesNothing) {
  // 2^61 elements, 2^60 values claimed by 100 bytes.
  std::vector<std::byte> bytes;
  write_message({.elements = 100, .index = {5}, .value = {1}}, DType::fp32, {100},
                {ValueFormat::fp32, IndexFormat::raw32}, bytes);
  const std::uint64_t elements = std::uint64_t{1} << 61, count = std::uint64_t{1} << 60, values = 4 * count;
  std::memcpy(bytes.data() + 56, &elements, 8);
  std::memcpy(bytes.data() + 16, &count, 8);
  std::memcpy(bytes.data() + 32, &values, 8);
  const std::uint64_t sum = message_checksum(bytes);
  std::memcpy(bytes.data() + 48, &sum, 8);
  EXPECT_THROW(read(bytes), RuntimeFault);
}

}  // namespace
}  // namespace fusion::compress
