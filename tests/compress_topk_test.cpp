// Top-k against a naive model: sort everything, take k. All instruction sets, all input types, injected specials.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "core/compress/topk.h"

namespace fusion::compress {
namespace {

using testing::ElementsAre;
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// By the definition: order by magnitude, then index; the first k, in index order.
Selection model(const std::vector<float>& x, std::size_t k) {
  Selection s;
  s.elements = x.size();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i])) return s.not_finite = i, s;
  std::vector<std::uint64_t> order(x.size());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  k = std::min(k, x.size());
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  if (k > 0) s.threshold = std::abs(x[order[k - 1]]);
  order.resize(k);
  std::sort(order.begin(), order.end());
  s.index = order;
  for (const auto i : order) s.value.push_back(x[i]);
  return s;
}

std::vector<std::uint32_t> bits(const std::vector<float>& x) {
  std::vector<std::uint32_t> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](float v) { return std::bit_cast<std::uint32_t>(v); });
  return result;
}

/// Equal to the last bit: -0.0 is not 0.0 here.
void expect_same(const Selection& got, const Selection& want, std::string_view what) {
  ASSERT_EQ(got.not_finite, want.not_finite) << what;
  ASSERT_EQ(got.index, want.index) << what;
  ASSERT_EQ(bits(got.value), bits(want.value)) << what;
  ASSERT_EQ(got.threshold, want.threshold) << what;
  ASSERT_EQ(got.elements, want.elements) << what;
}

float special(std::mt19937_64& rng) {
  static const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, -1e-45f, 3e38f, -3e38f, 1.1754944e-38f, 0.5f};
  return values[rng() % std::size(values)];
}

/// A vector with ties, zeros, subnormals, huge values; now and then one that is not finite.
std::vector<float> random_vector(std::mt19937_64& rng, std::size_t most) {
  std::vector<float> x(rng() % (most + 1));
  std::normal_distribution<float> normal;
  const auto style = rng() % 5;
  for (float& v : x) {
    v = normal(rng);
    if (style == 1) v = std::round(2 * v);               // heavy ties
    if (style == 2 && rng() % 4 != 0) v = 0;             // sparse
    if (style == 3 && rng() % 8 == 0) v = special(rng);  // specials
    if (style == 4) v = 0.25f;                           // constant
  }
  if (!x.empty() && rng() % 16 == 0) {
    const float bad[] = {nan, -nan, inf, -inf};
    x[rng() % x.size()] = bad[rng() % 4];
  }
  return x;
}

std::size_t random_k(std::mt19937_64& rng, std::size_t n) {
  const std::size_t choices[] = {0, 1, n, n + 1, n / 2, n / 10, rng() % (n + 1), rng() % (n / 20 + 2)};
  return choices[rng() % std::size(choices)];
}

TEST(Topk, AgreesWithSortingOn100000RandomVectorsOnEveryTarget) {
  std::mt19937_64 rng(1);
  TopkWorkspace workspace;
  Selection got;
  for (int round = 0; round < 100'000; ++round) {
    const auto x = random_vector(rng, rng() % 16 == 0 ? 600 : 90);
    const std::size_t k = random_k(rng, x.size());
    const Selection want = model(x, k);
    const float hints[] = {0, 0, want.threshold, want.threshold * 1.5f, want.threshold / 3, nan, inf};
    for (const Target target : supported_targets()) {
      top_k<float>(x, k, got, workspace, {.target = target, .hint = hints[rng() % std::size(hints)]});
      expect_same(got, want, name_of(target));
      if (HasFatalFailure()) return;
    }
  }
}

/// Inputs where a sampled threshold is wrong, or the room for candidates overflows.
std::vector<float> awkward(std::size_t shape, std::size_t n, std::mt19937_64& rng) {
  std::vector<float> x(n);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(rng);
  const auto by_magnitude = [](float a, float b) { return std::abs(a) < std::abs(b); };
  switch (shape) {
    case 0:
      break;
    case 1:
      std::sort(x.begin(), x.end(), by_magnitude);
      break;
    case 2:
      std::sort(x.rbegin(), x.rend(), by_magnitude);
      break;
    case 3:
      std::fill(x.begin(), x.end(), -2.5f);
      break;
    case 4:
      for (std::size_t i = 0; i < n; ++i) x[i] = i % 3 == 0 ? 1.0f : i % 3 == 1 ? -1.0f : 0.5f;
      break;
    case 5:
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::min(i, n - i));
      break;  // organ pipe
    case 6:
      std::fill(x.begin(), x.end(), 0.0f);
      x[n / 2] = 1;
      break;
    case 7:
      for (float& v : x) v *= 1e-42f;
      break;  // subnormal
    case 8:
      for (std::size_t i = 0; i < n; ++i) x[i] *= i < n / 50 ? 1000.0f : 1.0f;
      break;  // all in one place
    case 9:
      for (std::size_t i = 0; i < n; ++i) x[i] = 1 + static_cast<float>(i) * 1e-6f;
      break;
    case 10:
      for (std::size_t i = 0; i < n; ++i) x[i] = i > n - 3000 ? 7.0f : 0.0f;
      break;
    case 11:  // decoys where the sample looks
      for (std::size_t i = 0; i < SamplePositions(n).count; ++i) x[SamplePositions(n)[i] % n] = 100;
      break;
    case 12:
      for (std::size_t i = 0; i < SamplePositions(n).count; ++i) x[SamplePositions(n)[i] % n] = 0;
      break;
    default:
      for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(1.0f, static_cast<int>(i % 250) - 125);
      break;
  }
  return x;
}

TEST(Topk, AgreesWithSortingWhereASampleMisleads) {
  std::mt19937_64 rng(2);
  TopkWorkspace workspace;
  Selection got;
  for (std::size_t shape = 0; shape < 14; ++shape)
    for (const std::size_t n : {4095u, 4096u, 20'000u, 70'001u}) {
      const auto x = awkward(shape, n, rng);
      for (const std::size_t k : {std::size_t{1}, n / 1000, n / 100, n / 10, n / 2, n}) {
        const Selection want = model(x, k);
        for (const Target target : supported_targets())
          for (const float hint : {0.0f, want.threshold, want.threshold * 2, want.threshold / 2, 1e-30f}) {
            top_k<float>(x, k, got, workspace, {.target = target, .hint = hint});
            expect_same(got, want, name_of(target));
            if (HasFatalFailure()) FAIL() << "shape " << shape << " n " << n << " k " << k << " hint " << hint;
          }
      }
    }
}

TEST(Topk, FindsTheFirstValueThatIsNotFiniteWhereverItStands) {
  std::mt19937_64 rng(3);
  TopkWorkspace workspace;
  Selection got;
  for (std::size_t shape = 0; shape < 14; ++shape) {
    auto x = awkward(shape, 30'000, rng);
    const std::size_t at = rng() % x.size();
    x[at] = shape % 2 ? nan : -inf;
    for (std::size_t i = at; i < x.size(); i += 1000) x[i] = inf;
    x[at] = shape % 2 ? nan : -inf;
    for (const Target target : supported_targets())
      for (const std::size_t k : {0u, 1u, 300u, 30'000u}) {
        top_k<float>(x, k, got, workspace, {.target = target, .hint = shape % 3 ? 0.0f : 1e30f});
        ASSERT_EQ(got.not_finite, at) << "shape " << shape << " k " << k;
        ASSERT_THAT(got.index, testing::IsEmpty());
        ASSERT_THAT(got.value, testing::IsEmpty());
      }
  }
}

TEST(Topk, CountsInSegmentsAs64BitTensorsDo) {
  // A segment of 64 elements stands for one of 2^31: what crosses the border of 32-bit positions is the same code.
  std::mt19937_64 rng(4);
  TopkWorkspace workspace;
  Selection got;
  for (int round = 0; round < 300; ++round) {
    const auto x = random_vector(rng, 20'000);
    const std::size_t k = random_k(rng, x.size());
    const Selection want = model(x, k);
    for (const Target target : supported_targets())
      for (const std::size_t segment : {64u, 4096u}) {
        top_k<float>(x, k, got, workspace, {.target = target, .segment = segment});
        expect_same(got, want, name_of(target));
        if (HasFatalFailure()) FAIL() << "segment " << segment << " n " << x.size() << " k " << k;
      }
  }
}

template <class T>
T narrowed(float x);
template <>
Half narrowed<Half>(float x) {
  return to_half(x);
}
template <>
BFloat16 narrowed<BFloat16>(float x) {
  return to_bfloat16(x);
}

template <class T>
void check_narrow_input(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  TopkWorkspace workspace;
  Selection got;
  for (int round = 0; round < 2'000; ++round) {
    const auto wide = random_vector(rng, round % 20 == 0 ? 9'000 : 300);
    std::vector<T> x(wide.size());
    std::vector<float> seen(wide.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = narrowed<T>(rng() % 50 == 0 ? wide[i] * 1e-5f : wide[i]);  // fp16 subnormals too
      seen[i] = to_float(x[i]);
    }
    const std::size_t k = random_k(rng, x.size());
    const Selection want = model(seen, k);
    for (const Target target : supported_targets()) {
      top_k<T>(x, k, got, workspace, {.target = target});
      expect_same(got, want, name_of(target));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Topk, TakesHalfPrecisionInput) { check_narrow_input<Half>(5); }
TEST(Topk, TakesBrainFloatInput) { check_narrow_input<BFloat16>(6); }

void check_feedback(const std::vector<float>& x, const std::vector<float>& error, std::size_t k, float hint,
                    TopkWorkspace& workspace) {
  std::vector<float> sum(x.size());
  std::transform(x.begin(), x.end(), error.begin(), sum.begin(), std::plus<>());
  const Selection want = model(sum, k);
  auto left = sum;
  for (const auto i : want.index) left[i] = 0;
  for (const Target target : supported_targets()) {
    Selection got;
    Buffer<float> residual;  // aligned, as streaming wants it
    residual.reserve(x.size() + 1);
    const std::vector<float> before = error;
    top_k_feedback<float>(x, error, residual.first(x.size()), k, got, workspace, {.target = target, .hint = hint});
    expect_same(got, want, name_of(target));
    ASSERT_EQ(bits(error), bits(before)) << "the old residual is only read";
    if (want.not_finite) continue;
    ASSERT_EQ(bits(std::vector<float>(residual.data(), residual.data() + x.size())), bits(left)) << name_of(target);
  }
}

TEST(TopkFeedback, ResidualIsWhatWasNotSelected) {
  std::mt19937_64 rng(7);
  TopkWorkspace workspace;
  for (int round = 0; round < 10'000; ++round) {
    const auto x = random_vector(rng, round % 50 == 0 ? 9'000 : 200);
    std::vector<float> error(x.size());
    std::normal_distribution<float> normal;
    for (float& e : error) e = rng() % 4 == 0 ? 0.0f : normal(rng);
    check_feedback(x, error, random_k(rng, x.size()), rng() % 3 == 0 ? 1.0f : 0.0f, workspace);
    if (HasFatalFailure()) return;
  }
  for (std::size_t shape = 0; shape < 14; ++shape) {  // overflowing rooms, thresholds that fail
    const auto x = awkward(shape, 40'000, rng);
    check_feedback(x, std::vector<float>(x.size(), 0.125f), 400, shape % 2 ? 0.0f : 1e9f, workspace);
    if (HasFatalFailure()) FAIL() << "shape " << shape;
  }
}

TEST(TopkFeedback, ReportsASumThatOverflows) {
  // Both terms are finite; 3e38 + 3e38 is beyond fp32.
  TopkWorkspace workspace;
  check_feedback({1, 3e38f, 2}, {1, 3e38f, 2}, 1, 0, workspace);
  Selection got;
  std::vector<float> left(3);
  top_k_feedback<float>(std::vector<float>{1, 3e38f, 2}, std::vector<float>{1, 3e38f, 2}, left, 1, got, workspace);
  EXPECT_EQ(got.not_finite, 1u);
}

TEST(Topk, TiesGoToTheLowestIndex) {
  Selection got;
  TopkWorkspace workspace;
  top_k<float>(std::vector<float>{1, -3, 3, -3, 3}, 3, got, workspace);
  EXPECT_THAT(got.index, ElementsAre(1, 2, 3));
  EXPECT_THAT(got.value, ElementsAre(-3, 3, -3));
}

TEST(Topk, FillsUpWithZerosOfLowestIndex) {
  Selection got;
  TopkWorkspace workspace;
  top_k<float>(std::vector<float>{0, 0, 5, 0, 0}, 3, got, workspace);
  EXPECT_THAT(got.index, ElementsAre(0, 1, 2));
}

TEST(Golden, G15_TopkTakesTheMagnitude) {
  // |-5| is the largest of [1, -5, 2, 0.5].
  Selection got;
  TopkWorkspace workspace;
  top_k<float>(std::vector<float>{1, -5, 2, 0.5f}, 1, got, workspace);
  EXPECT_THAT(got.index, ElementsAre(1));
  EXPECT_THAT(got.value, ElementsAre(-5));
}

TEST(Half, ConversionsRoundTripEveryBitPattern) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const Half h{static_cast<std::uint16_t>(b)};
    const BFloat16 g{static_cast<std::uint16_t>(b)};
    if (std::isnan(to_float(h))) {
      EXPECT_TRUE(std::isnan(to_float(to_half(to_float(h)))));
    } else {
      ASSERT_EQ(to_half(to_float(h)), h) << b;
    }
    if (std::isnan(to_float(g))) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(to_float(g)))));
    } else {
      ASSERT_EQ(to_bfloat16(to_float(g)), g) << b;
    }
  }
}

/// The nearest of two neighbours, by comparing distances in double; ties to the even bit pattern.
template <class T>
bool is_nearest(float x, T got) {
  const double distance = std::abs(static_cast<double>(x) - static_cast<double>(to_float(got)));
  for (const int step : {-1, 1}) {
    const T other{static_cast<std::uint16_t>(got.bits + step)};
    const double neighbour = static_cast<double>(to_float(other));
    if (!std::isfinite(neighbour) || std::signbit(neighbour) != std::signbit(x)) continue;
    const double away = std::abs(static_cast<double>(x) - neighbour);
    if (away < distance || (away == distance && got.bits % 2 == 1)) return false;
  }
  return true;
}

/// Every exponent, random mantissas, specials: at every length around a vector's.
TEST(Half, VectorKernelsGiveTheReferencesBits) {
  std::mt19937_64 rng(21);
  for (const Target target : supported_targets())
    for (std::size_t round = 0; round < 2'000; ++round) {
      std::vector<float> x(rng() % 70);
      for (float& v : x) {
        v = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
        if (std::isnan(v)) v = rng() % 2 ? 65520.0f : 0x1p-25f;  // what a NaN keeps of its payload is not promised
      }
      const float factor = std::ldexp(1.0f, static_cast<int>(rng() % 40) - 20);
      std::vector<std::uint16_t> halves(x.size());
      kernels(target).to_half(x.data(), x.size(), factor, halves.data());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(halves[i], to_half(x[i] * factor).bits) << x[i] << " on " << name_of(target);
      std::vector<float> back(x.size());
      kernels(target).from_half(halves.data(), halves.size(), factor, back.data());
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(back[i], to_float(Half{halves[i]}) * factor);
    }
}

TEST(Half, RoundsToNearestEven) {
  std::mt19937_64 rng(8);
  for (int i = 0; i < 200'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (std::isnan(x)) continue;
    ASSERT_TRUE(std::abs(x) >= 65504 || is_nearest(x, to_half(x))) << x;
    ASSERT_TRUE(std::abs(x) >= 3e38f || is_nearest(x, to_bfloat16(x))) << x;
  }
  EXPECT_EQ(to_half(65519.9f).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_half(1.0f + 0x1p-11f).bits, 0x3c00) << "a tie goes to the even neighbour";
  EXPECT_EQ(to_half(1.0f + 0x3p-11f).bits, 0x3c02);
  EXPECT_EQ(to_half(-0.0f).bits, 0x8000);
}

}  // namespace
}  // namespace fusion::compress
