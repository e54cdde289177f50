// Walks the table of compressors: every row keeps its promise, whatever the tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <ostream>
#include <random>

#include "core/compress/codec.h"

namespace fusion::compress {

static void PrintTo(const MethodRow& row, std::ostream* out) { *out << row.name; }

namespace {

using Bytes = std::vector<std::byte>;

double squared(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

/// What subnormal numbers may lose.
double slack(std::size_t n) { return static_cast<double>(n) * 0x1p-250; }

struct Sample {
  Shape shape;
  std::vector<float> x;
};

/// Tensors of many sizes and scales, with zeros, ties, outliers, subnormals.
Sample random_sample(std::mt19937_64& rng) {
  const Shape shapes[] = {{1}, {2}, {31}, {33}, {64}, {257}, {600}, {8, 16}, {17, 40}, {3, 5, 7}, {1, 200}, {}};
  Sample s{shapes[rng() % std::size(shapes)], {}};
  s.x.resize(elements_of(s.shape));
  std::normal_distribution<float> normal;
  const float scales[] = {1, 1e-6f, 1e6f, 1e-37f, 1e-41f, 1e30f};
  const float scale = scales[rng() % std::size(scales)];
  const auto style = rng() % 5;
  for (float& v : s.x) {
    v = normal(rng);
    if (style == 1 && rng() % 2 == 0) v = 0;
    if (style == 2 && rng() % 50 == 0) v *= 1000;
    if (style == 3) v = std::round(v);
    if (style == 4) v = 0.75f;
    v *= scale;
  }
  return s;
}

class EveryCodec : public testing::TestWithParam<MethodRow> {
 protected:
  const MethodRow& row = GetParam();
  CodecWorkspace ws;
  MethodOptions options;

  /// One tensor through a fresh sender and a fresh receiver.
  std::vector<float> coded(const Sample& s) {
    TensorState sender, receiver;
    Bytes bytes;
    encode(row.method, "t", s.x, s.shape, options, sender, ws, bytes);
    std::vector<float> out(s.x.size());
    decode(row.method, "t", bytes, s.shape, receiver, ws, out);
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec, testing::ValuesIn(method_table().begin(), method_table().end()),
                         [](const auto& row) {
                           std::string name(row.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CodecTable, NamesAndNumbersLeadToTheirRows) {
  for (std::size_t i = 0; i < method_table().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(method_table()[i].method), i);
    EXPECT_EQ(find_method(method_table()[i].name), &method_table()[i]);
  }
  EXPECT_EQ(find_method("gzip"), nullptr);
}

TEST_P(EveryCodec, ContractionHolds) {
  if (row.guarantee != Guarantee::contraction && row.guarantee != Guarantee::exact) return;
  std::mt19937_64 rng(1);
  for (int round = 0; round < 3'000; ++round) {
    const Sample s = random_sample(rng);
    options.keep = round % 3 == 0 ? 0.01 : round % 3 == 1 ? 0.2 : 1.0;
    options.value = std::array{ValueFormat::fp16, ValueFormat::fp32, ValueFormat::bf16}[rng() % 3];
    const auto out = coded(s);
    ASSERT_LE(squared_distance(s.x, out),
              row.constant(s.shape, options) * squared(s.x) * (1 + 1e-12) + slack(s.x.size()))
        << to_string(s.shape) << " round " << round;
  }
}

TEST_P(EveryCodec, SizesAreKnownBeforeTheValues) {
  std::mt19937_64 rng(12);
  const std::optional<IndexFormat> indices[] = {{},
                                                IndexFormat::none,
                                                IndexFormat::raw32,
                                                IndexFormat::raw64,
                                                IndexFormat::byte_delta,
                                                IndexFormat::rice,
                                                IndexFormat::bitmap};
  for (int round = 0; round < 1'000; ++round) {
    Sample s = random_sample(rng);
    if (round % 20 == 0) s = {{3, 0}, {}};
    options.keep = std::array{0.01, 0.1, 0.6, 1.0}[rng() % 4];
    options.value = static_cast<ValueFormat>(rng() % 5);
    options.index = indices[rng() % std::size(indices)];
    options.rank = static_cast<int>(rng() % 5) + 1;
    const WireSize size = wire_size(row.method, s.shape, options);
    TensorState sender;
    Bytes bytes;
    for (int step = 0; step < 3; ++step) {
      encode(row.method, "t", s.x, s.shape, options, sender, ws, bytes);
      ASSERT_LE(bytes.size(), size.most) << to_string(s.shape) << " round " << round;
      if (!size.exact) continue;
      ASSERT_EQ(bytes.size(), size.expected) << to_string(s.shape) << " round " << round;
      ASSERT_EQ(bytes.size(), size.most);
    }
  }
}

/// Where the largest elements may lie anywhere, the stated mean is what is sent; sizes that depend on the values alone
/// have no mean.
TEST_P(EveryCodec, TheExpectedSizeIsTheMean) {
  if (row.guarantee == Guarantee::bounded) return;
  std::mt19937_64 rng(13);
  std::normal_distribution<float> normal;
  Sample s{{100'000}, std::vector<float>(100'000)};
  for (const double keep : {0.0002, 0.001, 0.01, 0.1, 0.4, 0.8})
    for (const ValueFormat value : {ValueFormat::fp16, ValueFormat::int4_log}) {
      options.keep = keep;
      options.value = value;
      for (float& v : s.x) v = normal(rng);
      TensorState sender;
      Bytes bytes;
      for (int step = 0; step < 2; ++step) encode(row.method, "t", s.x, s.shape, options, sender, ws, bytes);
      const auto expected = static_cast<double>(wire_size(row.method, s.shape, options).expected);
      EXPECT_NEAR(static_cast<double>(bytes.size()) / expected, 1, 0.015) << keep;
    }
}

TEST_P(EveryCodec, ChangesContractOnceBothEndsHoldTheTensor) {
  if (!row.reference) return;
  // Of the change, for aq: ||x - decoded||^2 <= c ||x - reference||^2.
  std::mt19937_64 rng(2);
  std::normal_distribution<float> normal;
  TensorState sender, receiver;
  Bytes bytes;
  std::vector<float> x(500), out(500);
  for (int step = 0; step < 50; ++step) {
    for (float& v : x) v += normal(rng) / static_cast<float>(step + 1);
    const auto before = out;
    encode(row.method, "t", x, {500}, options, sender, ws, bytes);
    decode(row.method, "t", bytes, {500}, receiver, ws, out);
    ASSERT_EQ(sender.reference, receiver.reference) << "both ends hold the same bits";
    const double c = step == 0 ? 0 : row.constant({500}, options) * 1.001;  // the first goes whole
    ASSERT_LE(squared_distance(x, out), c * squared_distance(x, before)) << step;
  }
}

/// Mean and mean squared error over many seeds, against what is stated.
void expect_unbiased(const MethodRow& row, MethodOptions options, const Sample& s, double constant) {
  constexpr int trials = 2'000;
  CodecWorkspace ws;
  Bytes bytes;
  std::vector<double> sum(s.x.size());
  double error = 0;
  for (int t = 0; t < trials; ++t) {
    options.seed = static_cast<std::uint64_t>(t);
    TensorState sender, receiver;
    encode(row.method, "t", s.x, s.shape, options, sender, ws, bytes);
    std::vector<float> out(s.x.size());
    decode(row.method, "t", bytes, s.shape, receiver, ws, out);
    error += squared_distance(s.x, out) / trials;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(out[i]) / trials;
  }
  double bias = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) bias += std::pow(sum[i] - static_cast<double>(s.x[i]), 2);
  EXPECT_LE(error, constant * squared(s.x) * 1.2) << row.name;
  // A mean of `trials` unbiased draws misses by error / trials on average; 3 times that for chance.
  EXPECT_LE(bias, 3 * error / trials + 1e-9 * squared(s.x)) << row.name;
}

TEST_P(EveryCodec, TheMeanIsRightAndTheVarianceBounded) {
  std::mt19937_64 rng(3);
  std::normal_distribution<float> normal;
  Sample s{{301}, std::vector<float>(301)};
  for (float& v : s.x) v = normal(rng);
  options.keep = 0.15;
  if (row.guarantee == Guarantee::unbiased) expect_unbiased(row, options, s, row.constant(s.shape, options));
  options.stochastic = true;
  // Rounding at random errs by at most a level: 4 times the square of half a level.
  if (row.method == Method::int8 || row.method == Method::int4)
    expect_unbiased(row, options, s, 4 * row.constant(s.shape, options));
}

TEST(Threshold, NothingSmallerThanTheThresholdIsLost) {
  std::mt19937_64 rng(4);
  std::normal_distribution<float> normal;
  std::vector<float> x(5'000);
  for (float& v : x) v = normal(rng);
  MethodOptions options;
  options.threshold = 1.5f;
  options.value = ValueFormat::fp32;
  CodecWorkspace ws;
  TensorState sender, receiver;
  Bytes bytes;
  std::vector<float> out(x.size());
  encode(Method::threshold, "t", x, {5'000}, options, sender, ws, bytes);
  decode(Method::threshold, "t", bytes, {5'000}, receiver, ws, out);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], std::abs(x[i]) >= 1.5f ? x[i] : 0.0f);
}

TEST_P(EveryCodec, TheResidualIsExactlyWhatTheReceiverDidNotGet) {
  if (!row.feedback) return;
  std::mt19937_64 rng(5);
  Bytes bytes;
  for (int round = 0; round < 500; ++round) {
    const Sample s = random_sample(rng);
    options.keep = 0.1;
    TensorState sender, receiver;
    for (int step = 0; step < 3; ++step) {
      auto sum = s.x;
      for (std::size_t i = 0; i < sender.residual.size(); ++i) sum[i] += sender.residual[i];
      encode(row.method, "t", s.x, s.shape, options, sender, ws, bytes);
      std::vector<float> out(s.x.size());
      decode(row.method, "t", bytes, s.shape, receiver, ws, out);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(sender.residual[i], sum[i] - out[i]) << to_string(s.shape);
    }
  }
}

TEST_P(EveryCodec, FeedbackLosesNothing) {
  if (!row.feedback) return;
  // Over T steps: sum of tensors = sum of what was decoded + the last residual.
  std::mt19937_64 rng(6);
  std::normal_distribution<float> normal;
  TensorState state, receiver;
  Bytes bytes;
  std::vector<double> in(24 * 32), out(24 * 32);
  std::vector<float> x(24 * 32), got(24 * 32);
  options.keep = 0.05;
  options.threshold = 2;
  for (int step = 0; step < 60; ++step) {
    for (std::size_t i = 0; i < x.size(); ++i) in[i] += static_cast<double>(x[i] = normal(rng));
    encode(row.method, "t", x, {24, 32}, options, state, ws, bytes);
    decode(row.method, "t", bytes, {24, 32}, receiver, ws, got);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] += static_cast<double>(got[i]);
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(in[i], out[i] + static_cast<double>(state.residual[i]), 1e-3) << i;
}

TEST_P(EveryCodec, ZerosAndNothingStayWhatTheyAre) {
  for (const Shape& shape : {Shape{256}, Shape{16, 16}, Shape{0}, Shape{4, 0}, Shape{1}}) {
    const Sample zeros{shape, std::vector<float>(elements_of(shape))};
    for (const float v : coded(zeros)) ASSERT_EQ(v, 0.0f);
  }
}

TEST(Golden, G17_ZerosThroughEveryCodec) {
  // A block of zeros has scale 0; 0 / 0 must not appear.
  for (const MethodRow& row : method_table()) {
    CodecWorkspace ws;
    TensorState sender, receiver;
    Bytes bytes;
    std::vector<float> out(256, 1.0f);
    encode(row.method, "t", std::vector<float>(256), {256}, {}, sender, ws, bytes);
    decode(row.method, "t", bytes, {256}, receiver, ws, out);
    for (const float v : out) ASSERT_EQ(v, 0.0f) << row.name;
  }
}

TEST(Golden, G15_TopkThroughItsCodec) {
  CodecWorkspace ws;
  TensorState sender, receiver;
  Bytes bytes;
  std::vector<float> out(4);
  MethodOptions options;
  options.keep = 0.25;  // k = 1
  encode(Method::topk, "t", std::vector<float>{1, -5, 2, 0.5f}, {4}, options, sender, ws, bytes);
  decode(Method::topk, "t", bytes, {4}, receiver, ws, out);
  EXPECT_THAT(out, testing::ElementsAre(0, -5, 0, 0));
  EXPECT_THAT(sender.residual, testing::ElementsAre(1, 0, 2, 0.5f));
}

TEST(Golden, G16_LowRank4Of1024x1024Is128Times) {
  // (1024 + 1024) * 4 = 8,192 numbers for 1,048,576: 128 times fewer. Beside them 32 bytes of envelope and 4 of rank.
  std::mt19937_64 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(1024 * 1024);
  for (float& v : x) v = normal(rng);
  CodecWorkspace ws;
  TensorState state;
  Bytes bytes;
  encode(Method::power_sgd, "t", x, {1024, 1024}, {}, state, ws, bytes);
  EXPECT_EQ(bytes.size() - 36, 1'048'576u * 4 / 128);
}

TEST(PowerSgd, AMatrixOfItsRankComesBackWhole) {
  // u v^T + s t^T has rank 2: any subspace that the power step finds of it holds all of it.
  std::mt19937_64 rng(8);
  std::normal_distribution<float> normal;
  std::vector<float> u(60), v(90), s(60), t(90), x(60 * 90), out(60 * 90);
  for (auto* a : {&u, &v, &s, &t})
    for (float& e : *a) e = normal(rng);
  for (std::size_t i = 0; i < 60; ++i)
    for (std::size_t j = 0; j < 90; ++j) x[i * 90 + j] = u[i] * v[j] + s[i] * t[j];
  MethodOptions options;
  options.rank = 2;
  CodecWorkspace ws;
  TensorState sender, receiver;
  Bytes bytes;
  encode(Method::power_sgd, "t", x, {60, 90}, options, sender, ws, bytes);
  decode(Method::power_sgd, "t", bytes, {60, 90}, receiver, ws, out);
  EXPECT_LE(squared_distance(x, out), 1e-8 * squared(x));
}

TEST_P(EveryCodec, NonFiniteValuesAreReportedAndChangeNothing) {
  std::mt19937_64 rng(9);
  std::normal_distribution<float> normal;
  TensorState state;
  Bytes bytes;
  std::vector<float> x(300);
  for (int step = 0; step < 2; ++step) {
    for (float& v : x) v = normal(rng);
    encode(row.method, "t", x, {300}, options, state, ws, bytes);
  }
  const TensorState before = state;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto y = x;
    y[77] = bad;
    try {
      encode(row.method, "layer.3", y, {300}, options, state, ws, bytes);
      FAIL() << "not reported";
    } catch (const NotFinite& e) {
      EXPECT_EQ(e.index, 77u);
      EXPECT_THAT(e.what(), testing::HasSubstr("layer.3"));
    }
    ASSERT_EQ(state, before);
  }
}

TEST_P(EveryCodec, AnotherShapeUnderTheSameNameIsAnError) {
  TensorState state;
  Bytes bytes;
  encode(row.method, "t", std::vector<float>(12, 1.0f), {12}, options, state, ws, bytes);
  const TensorState before = state;
  EXPECT_THROW(encode(row.method, "t", std::vector<float>(12, 1.0f), {3, 4}, options, state, ws, bytes), InputError);
  EXPECT_EQ(state, before);
}

TEST_P(EveryCodec, LostAndRepeatedMessagesAreNoticed) {
  TensorState sender, receiver;
  Bytes first, second;
  std::vector<float> out(64);
  encode(row.method, "t", std::vector<float>(64, 1.0f), {64}, options, sender, ws, first);
  encode(row.method, "t", std::vector<float>(64, 2.0f), {64}, options, sender, ws, second);
  EXPECT_THROW(decode(row.method, "t", second, {64}, receiver, ws, out), RuntimeFault);
  decode(row.method, "t", first, {64}, receiver, ws, out);
  EXPECT_THROW(decode(row.method, "t", first, {64}, receiver, ws, out), RuntimeFault);
  decode(row.method, "t", second, {64}, receiver, ws, out);
}

TEST_P(EveryCodec, DamagedBytesAreRefusedOrDecodeToFiniteValues) {
  std::mt19937_64 rng(10);
  const Sample s{{20, 30}, [&] {
                   std::vector<float> x(600);
                   for (float& v : x) v = static_cast<float>(rng() % 1000) - 500;
                   return x;
                 }()};
  TensorState sender;
  Bytes bytes;
  options.keep = 0.1;
  encode(row.method, "t", s.x, s.shape, options, sender, ws, bytes);
  std::vector<float> out(600);
  for (int round = 0; round < 3'000; ++round) {
    Bytes damaged = bytes;
    for (auto hits = rng() % 3 + 1; hits > 0; --hits)
      damaged[rng() % (rng() % 2 ? std::min<std::size_t>(110, damaged.size()) : damaged.size())] =
          std::array{std::byte{0}, std::byte{255}, std::byte{127}, std::byte(rng() % 256)}[rng() % 4];
    if (rng() % 4 == 0) damaged.resize(32 + rng() % (damaged.size() + 20));
    seal(damaged);
    TensorState receiver;
    try {
      decode(row.method, "t", damaged, s.shape, receiver, ws, out);
    } catch (const RuntimeFault&) {
      continue;
    }
    for (const float v : out) ASSERT_TRUE(std::isfinite(v));
  }
}

TEST_P(EveryCodec, TheSameSeedGivesTheSameBytes) {
  std::mt19937_64 rng(11);
  const Sample s = random_sample(rng);
  Bytes a, b;
  TensorState first, second;
  encode(row.method, "t", s.x, s.shape, options, first, ws, a);
  encode(row.method, "t", s.x, s.shape, options, second, ws, b);
  EXPECT_EQ(a, b);
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace fusion::compress
