// Wire sizes of cut tensors, and the text forms of codecs.
#include "core/plan/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

namespace fusion {
namespace {

Tensor tensor_of(Shape shape, DType dtype = DType::fp32) {
  Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  return tensor;
}

// A coded message has 32 bytes of envelope, and but for int8 56 of header and 8 per dimension.
constexpr std::int64_t envelope = 32, header = 56, dimension = 8;

// 1 x 1024 x 1024 fp32 is 4,194,304 bytes; 8 Mbps is 1e6 bytes/s: 4.194 s. Element ratio 100 keeps
// ceil(1,048,576 / 100) = 10,486 elements of 12 bytes; with 32 + 56 + 24 around them 125,944 bytes: 0.126 s, 33 times
// less.
TEST(Golden, G23_TopkBoundaryOnASlowLink) {
  const Tensor boundary = tensor_of({1, 1024, 1024});
  const BytesPerSecond link = parse_bandwidth("8 Mbps");
  EXPECT_DOUBLE_EQ((wire_bytes(boundary, {}) / link).value, 4.194304);
  const Seconds raw = wire_bytes(boundary, {CodecKind::topk_raw, 100}) / link;
  EXPECT_DOUBLE_EQ(raw.value, 0.125944);
  EXPECT_NEAR(raw.value, 0.126, 0.0005);
  EXPECT_NEAR(4.194304 / raw.value, 33, 0.5);
}

// Gaps of a uniform support at 1 % take 8.08 bits by log2 C(n, k) / k, and Rice comes within 1.5 % of that: with fp16
// 3.01 to 3.03 bytes per kept element, a quarter of the naive format.
TEST(Codec, TopkTakesThreeBytesPerKeptElement) {
  const Tensor boundary = tensor_of({1, 1024, 1024});
  const double kept = 10486, around = envelope + header + 3 * dimension;
  const double each = (static_cast<double>(wire_bytes(boundary, {CodecKind::topk, 100}).value) - around) / kept;
  EXPECT_GT(each, 2 + 8.08 / 8);
  EXPECT_LT(each, 2 + 8.08 / 8 * 1.02);
}

TEST(Codec, DenseRows) {
  const Tensor tensor = tensor_of({3, 100});
  const std::int64_t around = envelope + header + 2 * dimension;
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::none}), Bytes(1200));
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::fp16}), Bytes(around + 600));
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::bf16}), Bytes(around + 600));
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::int8}), Bytes(envelope + 300 + 2 * 4));  // 300 elements are two blocks
  EXPECT_EQ(wire_bytes(tensor_of({300}, DType::fp16), {CodecKind::none}), Bytes(600));
}

TEST(Codec, Int8ScalesByBlock) {
  const auto size = [](std::int64_t n) { return wire_bytes(tensor_of({n}), {CodecKind::int8}).value - envelope; };
  EXPECT_EQ(size(1), 1 + 4);
  EXPECT_EQ(size(256), 256 + 4);
  EXPECT_EQ(size(257), 257 + 8);
}

TEST(Codec, IntegersTravelAsTheyAre) {
  const Tensor tokens = tensor_of({8, 1024}, DType::int64);
  for (const CodecRow& row : codec_table()) {
    EXPECT_EQ(wire_bytes(tokens, {row.kind, 2}), Bytes(65536)) << row.name;
    EXPECT_FALSE(coding_of(tokens, {row.kind, 2})) << row.name;
  }
}

// Message sizes around the 32-bit limits are exact (golden case G18): 2^29 fp32 elements are 2^31 bytes.
TEST(Codec, SizesBeyond32Bits) {
  const std::int64_t two31 = std::int64_t{1} << 31, around = envelope + header + dimension;
  EXPECT_EQ(wire_bytes(tensor_of({two31 / 4}), {}), Bytes(two31));
  EXPECT_EQ(wire_bytes(tensor_of({two31}), {CodecKind::fp16}), Bytes(around + 2 * two31));
  EXPECT_EQ(wire_bytes(tensor_of({two31 + 1}), {CodecKind::int8}), Bytes(envelope + two31 + 1 + 4 * (two31 / 256 + 1)));
  EXPECT_EQ(wire_bytes(tensor_of({two31}), {CodecKind::topk_raw, 1}), Bytes(around + 12 * two31));
}

/// What an executor does with a plan's codec puts as many bytes on the wire as the plan says: exactly, or for `topk`
/// within 2 % of a tensor whose largest elements lie anywhere.
TEST(Codec, WhatIsSentIsAsLongAsPlanned) {
  std::mt19937_64 random(9);
  std::normal_distribution<float> normal;
  for (const Shape& shape : {Shape{40'000}, Shape{2, 100, 300}, Shape{64, 1000}})
    for (const Codec codec : {Codec{CodecKind::fp16}, Codec{CodecKind::bf16}, Codec{CodecKind::int8},
                              Codec{CodecKind::topk_raw, 7}, Codec{CodecKind::topk, 1}, Codec{CodecKind::topk, 1.5},
                              Codec{CodecKind::topk, 7}, Codec{CodecKind::topk, 100}, Codec{CodecKind::topk, 3000}}) {
      const Tensor tensor = tensor_of(shape);
      const auto coding = coding_of(tensor, codec);
      ASSERT_TRUE(coding);
      std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
      for (float& v : values) v = normal(random);
      compress::CodecWorkspace workspace;
      compress::TensorState state;
      std::vector<std::byte> sent;
      compress::encode(coding->method, "t", values, shape, coding->options, state, workspace, sent);
      const double planned = static_cast<double>(wire_bytes(tensor, codec).value);
      const bool exact = codec.kind != CodecKind::topk || codec.ratio == 1;
      EXPECT_NEAR(static_cast<double>(sent.size()), planned, exact ? 0 : 0.02 * planned) << to_string(codec);
    }
}

TEST(Codec, TopkWithinALimitKeepsAsMuchAsFits) {
  const Tensor tensor = tensor_of({30, 100});
  const auto keeping = [](std::int64_t k) { return Codec{CodecKind::topk, 3000.0 / static_cast<double>(k)}; };
  for (const std::int64_t limit : {0, 100, 106, 107, 150, 240, 1000, 3000, 6103, 6104, 100'000}) {
    const Codec codec = topk_within(tensor, Bytes(limit));
    const std::int64_t kept = kept_elements(3000, codec.ratio);
    EXPECT_EQ(codec, keeping(kept));
    EXPECT_TRUE(kept == 1 || wire_bytes(tensor, codec) <= Bytes(limit)) << limit;
    EXPECT_TRUE(kept == 3000 || wire_bytes(tensor, keeping(kept + 1)) > Bytes(limit)) << limit;
  }
}

TEST(Codec, SizesRiseWithWhatIsKept) {
  for (const std::int64_t n : {1, 17, 300, 5000}) {
    Bytes before;
    for (std::int64_t k = 1; k <= n; ++k) {
      const Codec codec{CodecKind::topk, static_cast<double>(n) / static_cast<double>(k)};
      const Bytes size = wire_bytes(tensor_of({n}), codec);
      ASSERT_GE(size, before) << k << " of " << n;
      before = size;
    }
    EXPECT_EQ(before, Bytes(envelope + header + dimension + 4 * n));  // all of them, exactly
  }
}

TEST(Codec, KeptElementsAreCeilingOfTheRatio) {
  EXPECT_EQ(kept_elements(100, 1), 100);
  EXPECT_EQ(kept_elements(100, 3), 34);
  EXPECT_EQ(kept_elements(100, 100), 1);
  EXPECT_EQ(kept_elements(100, 1e300), 1);
  EXPECT_EQ(kept_elements(1, 1), 1);
}

TEST(Codec, RatioMadeFromACountKeepsThatCount) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const auto n = std::uniform_int_distribution<std::int64_t>(1, std::int64_t{1} << 40)(random);
    const auto k = std::uniform_int_distribution<std::int64_t>(1, n)(random);
    ASSERT_EQ(kept_elements(n, static_cast<double>(n) / static_cast<double>(k)), k) << n;
  }
}

TEST(Codec, EveryRowIsFoundByItsKindAndName) {
  for (const CodecRow& row : codec_table()) {
    EXPECT_EQ(&row_of(row.kind), &row);
    EXPECT_EQ(parse_codec(to_string(Codec{row.kind, row.sparse ? 2.0 : 1.0})).kind, row.kind);
    EXPECT_GT(wire_bytes(tensor_of({1}), {row.kind}), Bytes(0)) << row.name;
  }
}

TEST(Codec, TextIsReadBack) {
  for (const Codec codec :
       {Codec{}, Codec{CodecKind::int8}, Codec{CodecKind::topk, 100}, Codec{CodecKind::topk, 1},
        Codec{CodecKind::topk, 1048576.0 / 7}, Codec{CodecKind::topk, 1e17}, Codec{CodecKind::topk_raw, 30}})
    EXPECT_EQ(parse_codec(to_string(codec)), codec) << to_string(codec);
  EXPECT_EQ(to_string(Codec{CodecKind::topk, 100}), "topk:100");
  EXPECT_EQ(to_string(Codec{CodecKind::fp16}), "fp16");
}

TEST(Codec, RefusesWhatIsNoCodec) {
  for (const char* text : {"", "zip", "topk", "topk:", "topk:0", "topk:0.5", "topk:-3", "topk:nan", "topk:inf",
                           "topk:1e999", "topk:100x", "topk:100:2", "topk: 100", "fp16:2", "none:", "TOPK:100"})
    EXPECT_THROW(parse_codec(text), std::invalid_argument) << text;
  try {
    parse_codec("fp61");
    FAIL();
  } catch (const std::invalid_argument& fault) {
    EXPECT_THAT(fault.what(), testing::HasSubstr("did you mean \"fp16\""));
  }
}

}  // namespace
}  // namespace fusion
