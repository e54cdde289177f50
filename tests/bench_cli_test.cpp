// fusion-bench as its users meet it: the JSON contract of compress, exit codes, what is wrong and what would be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/compress/codec.h"
#include "tests/support/run_program.h"

namespace fusion {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Outcome compress(const std::string& options) {
  return run_program(std::string(FUSION_BENCH_PROGRAM) + " compress --elements 8192 --turns 1 --quiet " + options);
}

TEST(BenchCompress, JsonHoldsItsKeysForEveryCodec) {
  const Outcome run = compress("--json --link '8 Mbps','100 Gbps'");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const json whole = json::parse(run.out);
  ASSERT_EQ(whole["codecs"].size(), compress::method_table().size());
  for (std::size_t i = 0; i < whole["codecs"].size(); ++i) {
    const json& row = whole["codecs"][i];
    const compress::MethodRow& method = compress::method_table()[i];
    EXPECT_EQ(row["codec"], method.name);
    for (const char* key : {"ns", "read_fraction", "bytes_per_kept"}) EXPECT_GT(row[key].get<double>(), 0) << key;
    EXPECT_GE(row["relative_error"].get<double>(), 0);
    EXPECT_GE(row["break_even_bits_per_s"].get<double>(), 0);
    EXPECT_TRUE(row["entropy_ratio"].is_null() || row["entropy_ratio"].get<double>() > 0.9) << method.name;
    if (method.guarantee == compress::Guarantee::contraction) {
      EXPECT_LE(row["contraction"].get<double>(), row["contraction_bound"].get<double>()) << method.name;
    }
    EXPECT_EQ(row["links"].size(), 2u);
    EXPECT_EQ(row["verdict"], row["links"][0]["verdict"]);
    const double even = row["break_even_bits_per_s"];
    EXPECT_EQ(row["links"][0]["verdict"], even > 8e6 ? "compress" : "don't compress here") << method.name;
    EXPECT_EQ(row["links"][1]["verdict"], even > 1e11 ? "compress" : "don't compress here") << method.name;
  }
  EXPECT_EQ(whole["codecs"][0]["break_even_bits_per_s"], 0) << "none sends no fewer bytes at any bandwidth";
}

TEST(BenchCompress, CsvHasARowForEveryCodecAndAsManyCellsAsTitles) {
  const Outcome run = compress("--csv");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::istringstream lines(run.out);
  std::string line;
  std::size_t count = 0, commas = 0;
  while (std::getline(lines, line)) {
    const auto here = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
    if (count++ == 0) commas = here;
    EXPECT_EQ(here, commas) << line;
  }
  EXPECT_EQ(count, compress::method_table().size() + 1);
}

TEST(BenchCompress, PartsGiveSelectionHardInputsAndIndexFormats) {
  const Outcome run = compress("--parts --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json whole = json::parse(run.out);
  EXPECT_EQ(whole["selection"].size(), 3 * compress::supported_targets().size());
  for (const char* key : {"cold_read_fraction", "warm_read_fraction", "feedback_over_accumulate"})
    EXPECT_GT(whole["selection"][0][key].get<double>(), 0) << key;
  EXPECT_GT(whole["hard_inputs"].size(), 5u);
  EXPECT_EQ(whole["index_formats"].size(), 4u);
}

TEST(BenchCompress, SaysWhatIsWrongAndWhatWouldBeRight) {
  const auto expect = [](const std::string& options, int code, const std::string& text) {
    const Outcome run = compress(options);
    EXPECT_EQ(run.exit_code, code) << options;
    EXPECT_THAT(run.err, HasSubstr(text));
    EXPECT_EQ(run.out, "");
  };
  expect("--codec topkk", 3, "did you mean \"topk\"");
  expect("--distribution gausian", 3, "did you mean \"gaussian\"");
  expect("--value fp61", 3, "fp16");
  expect("--target avx1024", 3, "--target");
  expect("--link 8", 3, "--link");
  expect("--keep 0", 3, "--keep");
  expect("--keep nan", 3, "--keep");
  expect("--rank 0", 3, "--rank");
  expect("--file nowhere.npy", 3, "nowhere.npy");
  const Outcome misspelt = run_program(std::string(FUSION_BENCH_PROGRAM) + " compres --json");
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean \"compress\""));
  const Outcome help = run_program(std::string(FUSION_BENCH_PROGRAM) + " compress --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("fusion-bench compress --link"));
}

}  // namespace
}  // namespace fusion
