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

// 1 x 1024 x 1024 fp32 is 4,194,304 bytes; 8 Mbps is 1e6 bytes/s: 4.194 s. Element ratio 100 keeps
// ceil(1,048,576 / 100) = 10,486 elements of 12 bytes: 125,832 bytes, 0.126 s.
TEST(Golden, G23_TopkBoundaryOnASlowLink) {
  const Tensor boundary = tensor_of({1, 1024, 1024});
  const BytesPerSecond link = parse_bandwidth("8 Mbps");
  EXPECT_DOUBLE_EQ((wire_bytes(boundary, {}) / link).value, 4.194304);
  EXPECT_DOUBLE_EQ((wire_bytes(boundary, {CodecKind::topk, 100}) / link).value, 0.125832);
}

// The same at its sides: a ratio of 3 is where the 12-byte format breaks even with fp32, 6 with fp16.
TEST(Codec, OverheadIsWhereSparseBreaksEven) {
  EXPECT_DOUBLE_EQ(wire_overhead(CodecKind::topk, DType::fp32), 3);
  EXPECT_DOUBLE_EQ(wire_overhead(CodecKind::topk, DType::fp16), 6);
  EXPECT_DOUBLE_EQ(wire_overhead(CodecKind::topk, DType::bf16), 6);
  for (const DType dtype : {DType::fp32, DType::fp16}) {
    const Tensor tensor = tensor_of({6, 100}, dtype);
    EXPECT_EQ(wire_bytes(tensor, {CodecKind::topk, wire_overhead(CodecKind::topk, dtype)}), bytes_of(tensor));
  }
}

TEST(Codec, DenseRows) {
  const Tensor tensor = tensor_of({3, 100});
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::none}), Bytes(1200));
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::fp16}), Bytes(600));
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::bf16}), Bytes(600));
  EXPECT_EQ(wire_bytes(tensor, {CodecKind::int8}), Bytes(300 + 2 * 4));  // 300 elements are two blocks
  EXPECT_EQ(wire_bytes(tensor_of({300}, DType::fp16), {CodecKind::none}), Bytes(600));
}

TEST(Codec, Int8ScalesByBlock) {
  const auto size = [](std::int64_t n) { return wire_bytes(tensor_of({n}), {CodecKind::int8}).value; };
  EXPECT_EQ(size(1), 1 + 4);
  EXPECT_EQ(size(256), 256 + 4);
  EXPECT_EQ(size(257), 257 + 8);
}

TEST(Codec, IntegersTravelAsTheyAre) {
  const Tensor tokens = tensor_of({8, 1024}, DType::int64);
  for (const CodecRow& row : codec_table()) EXPECT_EQ(wire_bytes(tokens, {row.kind, 2}), Bytes(65536)) << row.name;
}

// Message sizes around the 32-bit limits are exact (golden case G18): 2^29 fp32 elements are 2^31 bytes.
TEST(Codec, SizesBeyond32Bits) {
  const std::int64_t two31 = std::int64_t{1} << 31;
  EXPECT_EQ(wire_bytes(tensor_of({two31 / 4}), {}), Bytes(two31));
  EXPECT_EQ(wire_bytes(tensor_of({two31}), {CodecKind::fp16}), Bytes(2 * two31));
  EXPECT_EQ(wire_bytes(tensor_of({two31 + 1}), {CodecKind::int8}), Bytes(two31 + 1 + 4 * (two31 / 256 + 1)));
  EXPECT_EQ(wire_bytes(tensor_of({two31}), {CodecKind::topk, 1}), Bytes(12 * two31));
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
    EXPECT_EQ(find_codec(row.name), &row);
    EXPECT_FALSE(row.help.empty());
    EXPECT_GT(row.wire_bytes(1, DType::fp32, 1), Bytes(0)) << row.name;
  }
  EXPECT_EQ(find_codec("zip"), nullptr);
}

TEST(Codec, TextIsReadBack) {
  for (const Codec codec : {Codec{}, Codec{CodecKind::int8}, Codec{CodecKind::topk, 100}, Codec{CodecKind::topk, 1},
                            Codec{CodecKind::topk, 1048576.0 / 7}, Codec{CodecKind::topk, 1e17}})
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
