// Units at the border: bits against bytes, M against Mi, and what is refused (golden case G24).
#include "core/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
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

TEST(Units, BoundsArePlausibleOnes) {
  // A value that would make a quotient infinite or zero is as wrong as a negative one.
  EXPECT_DOUBLE_EQ(parse_bandwidth("1 bps").value, 0.125);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1e6 Tbps").value, 1.25e17);
  EXPECT_DOUBLE_EQ(parse_seconds("1e-6 ns").value, 1e-15);
  for (const char* text : {"0.9 bps", "1.1e6 Tbps", "1e-320 Gbps", "1e300 bps"})
    EXPECT_THROW(parse_bandwidth(text), std::invalid_argument) << text;
  for (const char* text : {"1e-7 ns", "2e9 s", "1e300 s", "1e-320 s"})
    EXPECT_THROW(parse_seconds(text), std::invalid_argument) << text;
  for (const char* text : {"0.5 FLOP/s", "1e7 PFLOP/s"})
    EXPECT_THROW(parse_flops_per_second(text), std::invalid_argument) << text;
  EXPECT_EQ(parse_bytes("1 B"), Bytes(1));
  EXPECT_EQ(parse_bytes("9e6 TB"), Bytes(9'000'000'000'000'000'000));
}

TEST(Units, NumbersWithTheUnitElsewhere) {
  EXPECT_EQ(to_bandwidth(1.5, "Gbps"), parse_bandwidth("1.5 Gbps"));
  EXPECT_EQ(to_seconds(0, "ms"), Seconds(0));
  for (const double wrong : {0.0, -1.0, std::nan(""), 1e300})
    EXPECT_THROW(to_bandwidth(wrong, "Gbps"), std::invalid_argument);
  for (const double wrong : {-1.0, std::nan(""), 1e300}) EXPECT_THROW(to_seconds(wrong, "ms"), std::invalid_argument);
  try {
    to_bandwidth(-0.5, "Gbps");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "\"-0.5 Gbps\" is negative; write it like \"100 Mbps\"");
  }
}

TEST(Units, OperatorsKeepTheirDimensions) {
  EXPECT_EQ(Bytes(1'000'000) / BytesPerSecond(1e6), Seconds(1));
  EXPECT_EQ(Flops(2e12) / FlopsPerSecond(1e12), Seconds(2));
  EXPECT_EQ(Bytes(6) / Bytes(3), 2.0);
  EXPECT_LT(Bytes(1), Bytes(2));
}

TEST(Units, FormattedValuesParseBackWithinTheirDigits) {
  for (double value = 1e3; value < 1e17; value *= 3.7)
    EXPECT_NEAR(parse_bandwidth(format(BytesPerSecond(value))).value / value, 1, 5.1e-3)
        << format(BytesPerSecond(value));
  for (double value = 1e-9; value < 1e3; value *= 3.7)
    EXPECT_NEAR(parse_seconds(format(Seconds(value))).value / value, 1, 5.1e-3) << format(Seconds(value));
  for (std::int64_t value = 1; value < (1LL << 50); value = value * 3 + 1)
    EXPECT_NEAR(static_cast<double>(parse_bytes(format(Bytes(value))).value) / static_cast<double>(value), 1, 5.1e-3)
        << format(Bytes(value));
  EXPECT_EQ(format(Seconds(0.9996e-3)), "1.00 ms");  // not "1000 us": the unit is chosen after rounding
  EXPECT_EQ(format(Bytes(1023)), "1023 B");
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
