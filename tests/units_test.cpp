// Units at the border: bits against bytes, M against Mi, and what is refused (golden case G24).
#include "core/base/units.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace fusion {
namespace {

TEST(Units, BitsAndBytesAreToldApart) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("8 Mbps").value, 1e6);  // 8e6 bits / 8
  EXPECT_DOUBLE_EQ(parse_bandwidth("1 MB/s").value, 1e6);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1 MiB/s").value, 1048576);
  EXPECT_DOUBLE_EQ(parse_bandwidth("10Gbps").value, 1.25e9);
}

TEST(Units, SizesTimesAndSpeeds) {
  EXPECT_EQ(parse_bytes("24 GiB"), Bytes(24LL << 30));
  EXPECT_EQ(parse_bytes("24 GB"), Bytes(24'000'000'000));
  EXPECT_DOUBLE_EQ(parse_seconds("50 ms").value, 0.05);
  EXPECT_DOUBLE_EQ(parse_seconds("0 s").value, 0);  // no latency is a latency
  EXPECT_DOUBLE_EQ(parse_flops_per_second("82.6 TFLOP/s").value, 82.6e12);
  EXPECT_DOUBLE_EQ(parse_flops_per_second("1 Gflop/s").value, 1e9);
}

TEST(Units, RefusesWhatIsNoQuantity) {
  for (const char* text : {"", " ", "10", "-1 Gbps", "0 Gbps", "nan Gbps", "inf Gbps", "1e400 Gbps", "1 Gb", "1 gbps",
                           "Gbps", "1 Gbps x", "1,5 Gbps", "1e-400 Gbps", "0x10 Gbps"})
    EXPECT_THROW(parse_bandwidth(text), std::invalid_argument) << text;
  for (const char* text : {"0 GiB", "-24 GiB", "24", "0.1 B", "1e10 TiB"})
    EXPECT_THROW(parse_bytes(text), std::invalid_argument) << text;
  for (const char* text : {"-1 ms", "nan s", "5", "1 minute"})
    EXPECT_THROW(parse_seconds(text), std::invalid_argument) << text;
  for (const char* text : {"0 TFLOP/s", "-3 TFLOP/s", "82.6", "82.6 TOPS"})
    EXPECT_THROW(parse_flops_per_second(text), std::invalid_argument) << text;
}

TEST(Units, MessageShowsTheRightForm) {
  try {
    parse_bandwidth("10");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "\"10\" has no unit; write it like \"100 Mbps\"");
  }
}

TEST(Units, FormatsForPeople) {
  EXPECT_EQ(format(BytesPerSecond(1e6)), "8 Mbps");
  EXPECT_EQ(format(Seconds(0.00125)), "1.25 ms");
  EXPECT_EQ(format(Bytes(3LL << 30)), "3 GiB");
  EXPECT_EQ(format(FlopsPerSecond(82.6e12)), "82.6 TFLOP/s");
  EXPECT_EQ(format(Seconds(123.4)), "123 s");
}

}  // namespace
}  // namespace fusion
