// TOML files: what is asked for by name and type, and every way in which a file can be wrong.
#include "core/base/toml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

namespace fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class TomlFile : public testing::Test {
 protected:
  ~TomlFile() override { std::filesystem::remove_all(path_); }

  TomlTable load(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return load_toml(path_);
  }

  /// The message of the InputError that `use` must throw, without the directory.
  std::string fault(const std::function<void()>& use) {
    try {
      use();
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, Not(HasSubstr("\n")));
      const auto at = text.find(path_.string());
      return at == std::string::npos ? text : text.substr(at + path_.string().size());
    }
    ADD_FAILURE() << "no InputError";
    return {};
  }

  std::string fault(const std::string& text, const std::function<void(const TomlTable&)>& use) {
    return fault([&] { use(load(text)); });
  }

  const testing::TestInfo* test_ = testing::UnitTest::GetInstance()->current_test_info();
  std::filesystem::path path_ = testing::TempDir() + "toml_" + test_->name() + ".toml";
};

TEST_F(TomlFile, GivesEveryKindOfValue) {
  const auto root = load(R"(
name = "pair"
count = 3
share = 0.5
whole = 2
flag = true
words = ["a", "b"]
numbers = [1, 2]
grid = [[1, 2.5], [3, 4]]
speed = "1 Gbps"
wait = "5 ms"
memory = "24 GiB"
rate = "82.6 TFLOP/s"
[inner]
x = 1
[[host]]
name = "a"
[[host]]
name = "b"
)");
  EXPECT_EQ(root.string("name"), "pair");
  EXPECT_EQ(root.integer("count"), 3);
  EXPECT_EQ(root.real("share"), 0.5);
  EXPECT_EQ(root.real("whole"), 2.0);  // an integer is a number
  EXPECT_TRUE(root.boolean("flag"));
  EXPECT_THAT(root.strings("words"), ElementsAre("a", "b"));
  EXPECT_THAT(root.integers("numbers"), ElementsAre(1, 2));
  EXPECT_THAT(root.matrix("grid"), ElementsAre(ElementsAre(1, 2.5), ElementsAre(3, 4)));
  EXPECT_EQ(root.bandwidth("speed"), BytesPerSecond(1e9 / 8));
  EXPECT_EQ(root.seconds("wait"), Seconds(5e-3));
  EXPECT_EQ(root.bytes("memory"), Bytes(24LL << 30));
  EXPECT_EQ(root.flops_per_second("rate"), FlopsPerSecond(82.6e12));
  EXPECT_EQ(root.table("inner").integer("x"), 1);
  ASSERT_EQ(root.tables("host").size(), 2u);
  EXPECT_EQ(root.tables("host")[1].string("name"), "b");
  EXPECT_TRUE(root.tables("absent").empty());
}

TEST_F(TomlFile, FallbacksServeAbsentKeysOnly) {
  const auto root = load("count = 3\nname = 7\n");
  EXPECT_EQ(root.integer("count", 1), 3);
  EXPECT_EQ(root.integer("other", 1), 1);
  EXPECT_EQ(root.string("title", "none"), "none");
  EXPECT_EQ(root.real("share", 0.25), 0.25);
  EXPECT_TRUE(root.boolean("flag", true));
  EXPECT_THAT(fault([&] { root.string("name", "none"); }), HasSubstr(":2: name: \"7\" is an integer; write a string"));
}

TEST_F(TomlFile, KeysComeInFileOrderAndAreNotAskedFor) {
  const auto root = load("zeta = 1\nalpha = 2\nmid = 3\n");
  EXPECT_THAT(root.keys(), ElementsAre("zeta", "alpha", "mid"));
  EXPECT_EQ(fault([&] { root.reject_unknown(); }), ":1: zeta: \"zeta\" is not known");
}

TEST_F(TomlFile, AskedKeysAreSharedByCopiesAndHandles) {
  const auto root = load("a = 1\n[inner]\nx = 1\ny = 2\n");
  const auto copy = root;
  copy.integer("a");
  copy.table("inner").integer("x");
  root.table("inner").integer("y");
  EXPECT_NO_THROW(root.reject_unknown());
  EXPECT_NO_THROW(root.table("inner").reject_unknown());
}

TEST_F(TomlFile, TablesKeepTheFileAlive) {
  const auto inner = load("[outer.inner]\nx = 1\n").table("outer").table("inner");
  EXPECT_EQ(inner.integer("x"), 1);
  EXPECT_EQ(fault([&] { inner.string("x"); }), ":2: outer.inner.x: \"1\" is an integer; write a string");
}

TEST(Golden, G21_MisspeltKeyNamesFileLineKeyAndNearest) {
  const std::string path = testing::TempDir() + "g21.toml";
  std::ofstream(path) << "[uplink]\nlatency = \"1 ms\"\nbandwith = \"1 Gbps\"\n";
  const auto message = [&](const std::function<void(const TomlTable&)>& use) -> std::string {
    try {
      use(load_toml(path).table("uplink"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  // Found both where the right key is missed and where all keys have been read.
  EXPECT_EQ(
      message([](const TomlTable& t) { t.bandwidth("bandwidth"); }),
      path + ":3: uplink.bandwith: \"bandwidth\" is missing; did you mean \"bandwidth\" instead of \"bandwith\"?");
  EXPECT_EQ(message([](const TomlTable& t) { t.has("bandwidth"), t.has("latency"), t.reject_unknown(); }),
            path + ":3: uplink.bandwith: \"bandwith\" is not known; did you mean \"bandwidth\"?");
  std::filesystem::remove(path);
}

TEST_F(TomlFile, ANeighbourWithAnotherNumberIsNoMisspelling) {
  EXPECT_THAT(fault("peak_fp16 = \"1 TFLOP/s\"\n", [](const TomlTable& root) { root.flops_per_second("peak_fp32"); }),
              testing::EndsWith("peak_fp32: is missing"));
}

TEST(Golden, G24_QuantitiesOutOfRangeNameFileKeyAndValue) {
  const std::string path = testing::TempDir() + "g24.toml";
  using Getter = std::function<void(const TomlTable&)>;
  const std::vector<std::pair<Getter, std::vector<std::string>>> table = {
      {[](const TomlTable& t) { t.bandwidth("value"); },
       {"\"0 Gbps\"", "\"-1 Gbps\"", "\"nan Gbps\"", "\"inf Gbps\"", "\"1e300 Gbps\"", "\"1e-300 Gbps\"", "\"10\"",
        "10", "-1", "nan", "inf", "0", "true", "\"\"", "\"1 GB\"", "[1]", "{x = 1}", "1979-05-27"}},
      {[](const TomlTable& t) { t.seconds("value"); },
       {"\"-1 ms\"", "\"nan ms\"", "\"inf s\"", "\"1e300 s\"", "\"5\"", "5", "0", "nan", "\"1 Gbps\""}},
      {[](const TomlTable& t) { t.bytes("value"); },
       {"\"0 GiB\"", "\"-24 GiB\"", "\"nan GiB\"", "\"1e30 GiB\"", "\"24\"", "24", "\"24 Gbps\""}},
      {[](const TomlTable& t) { t.flops_per_second("value"); },
       {"\"0 TFLOP/s\"", "\"-1 TFLOP/s\"", "\"nan TFLOP/s\"", "\"1e300 TFLOP/s\"", "\"1e-300 FLOP/s\"", "\"82\"",
        "82"}}};
  for (const auto& [getter, values] : table)
    for (const auto& value : values) {
      std::ofstream(path) << "value = " << value << "\n";
      try {
        getter(load_toml(path));
        ADD_FAILURE() << value;
      } catch (const InputError& error) {
        const std::string bare = value.front() == '"' ? value.substr(1, value.size() - 2) : value;
        EXPECT_THAT(error.what(), testing::StartsWith(path + ":1: value: "));
        if (std::string_view("{[").find(bare[0]) == std::string_view::npos) {
          EXPECT_THAT(error.what(), HasSubstr('"' + bare + '"'));
        }
        EXPECT_THAT(error.what(), HasSubstr("write it like"));
      }
    }
  std::filesystem::remove(path);
}

struct WrongUse {
  const char* text;
  std::function<void(const TomlTable&)> use;
  const char* expected;
};

TEST_F(TomlFile, WrongKindsNameKeyValueAndWhatWouldBeRight) {
  const std::vector<WrongUse> table = {
      {"x = \"four\"", [](auto& t) { t.integer("x"); }, ":1: x: \"four\" is a string; write an integer"},
      {"x = 4.5", [](auto& t) { t.integer("x", 1); }, ":1: x: \"4.5\" is a real number; write an integer"},
      {"x = \"4\"", [](auto& t) { t.real("x"); }, ":1: x: \"4\" is a string; write a number"},
      {"x = nan", [](auto& t) { t.real("x"); }, ":1: x: \"nan\" is not finite; write a number"},
      {"x = -inf", [](auto& t) { t.real("x", 1); }, ":1: x: \"-inf\" is not finite; write a number"},
      {"x = 1", [](auto& t) { t.boolean("x"); }, ":1: x: \"1\" is an integer; write true or false"},
      {"x = 1", [](auto& t) { t.strings("x"); }, ":1: x: \"1\" is an integer; write an array of strings"},
      {"x = [1, \"a\"]", [](auto& t) { t.integers("x"); }, ":1: x: \"a\" is a string; write an array of integers"},
      {"x = [1]", [](auto& t) { t.matrix("x"); }, ":1: x: \"1\" is an integer; write rows of numbers"},
      {"x = [[1, 2], [3]]", [](auto& t) { t.matrix("x"); }, ":1: x: has rows of 2 and of 1 numbers"},
      {"x = [[1, nan]]", [](auto& t) { t.matrix("x"); }, ":1: x: \"nan\" is not finite"},
      {"x = [[1, \"2\"]]", [](auto& t) { t.matrix("x"); }, ":1: x: \"2\" is a string"},
      {"x = 1", [](auto& t) { t.table("x"); }, ":1: x: \"1\" is an integer; write a table, like [x]"},
      {"y = 1\n[x]", [](auto& t) { t.tables("x"); }, ":2: x: is a table; write [[x]], once for each"},
      {"[[x]]", [](auto& t) { t.table("x"); }, ":1: x: is an array of tables; write a table, like [x]"},
      {"x = [1]", [](auto& t) { t.tables("x"); }, ":1: x: \"1\" is an integer; write [[x]], once for each"},
      {"y = 1", [](auto& t) { t.string("name"); }, ":1: name: is missing"},
      {"\n\n[x]\ny = 1", [](auto& t) { t.table("x").string("name"); }, ":3: x.name: is missing"},
      {"[[a]]\n[[a]]\n[[a.b]]\n", [](auto& t) { t.tables("a")[1].tables("b")[0].integer("n"); },
       ":3: a.b.n: is missing"},
      {"x = \"a\\nb\"", [](auto& t) { t.integer("x"); }, ":1: x: \"a\\nb\" is a string; write an integer"},
  };
  for (const auto& [text, use, expected] : table) EXPECT_THAT(fault(text, use), HasSubstr(expected)) << text;
}

TEST_F(TomlFile, LongValuesAreCut) {
  const auto message = fault("x = \"" + std::string(100'000, 'y') + "\"", [](auto& t) { t.integer("x"); });
  EXPECT_LT(message.size(), 200u);
  EXPECT_THAT(message, HasSubstr("100000 characters"));
}

TEST_F(TomlFile, FilesThatAreNoneAreRefusedWithTheReason) {
  const auto nothing = [](const TomlTable&) {};
  EXPECT_EQ(fault([&] { load_toml(path_); }), ": no such file");
  EXPECT_EQ(fault("", nothing), ": is empty");
  EXPECT_EQ(fault("\n\n  # only a comment\n", nothing), ": is empty");
  EXPECT_EQ(fault(std::string("\x7f"
                              "ELF\0\0\1",
                              7),
                  nothing),
            ": is not a text file");
  EXPECT_THAT(fault("x = \"\xff\xfe\"", nothing), testing::StartsWith(":1: "));  // not UTF-8
  EXPECT_EQ(fault([] { load_toml(testing::TempDir()); }), testing::TempDir() + ": is a directory, not a file");
  EXPECT_EQ(fault([] { load_toml("/dev/zero"); }), "/dev/zero: is a device, not a file");
  EXPECT_EQ(fault([] { load_toml(""); }), "no such file");
  EXPECT_THAT(fault([] { load_toml("a\nb"); }), HasSubstr("a\\nb"));
}

TEST_F(TomlFile, SyntaxErrorsNameTheirLine) {
  const auto nothing = [](const TomlTable&) {};
  const std::vector<std::pair<const char*, const char*>> table = {
      {"a = 1\nb = \n", ":2: "},          {"a = 1\na = 2\n", ":2: "}, {"a = 1\n[a]\n", ":2: "},
      {"a = 1\n\nb 2\n", ":3: "},         {"a = \"open\n", ":1: "},   {"[x]\n[x]\n", ":2: "},
      {"a = 1\n[[x\n", ":2: "},           {"a = 1e\n", ":1: "},       {"a = [1, 2\n", ":"},
      {"[[x]]\nn=1\n[x]\nn=2\n", ":3: "}, {"a = 0x\nb = 1", ":1: "}};
  for (const auto& [text, expected] : table) EXPECT_THAT(fault(text, nothing), testing::StartsWith(expected)) << text;
}

TEST_F(TomlFile, DeepNestingIsAnErrorNotACrash) {
  const std::string deep = "a = " + std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_FALSE(fault(deep, [](const TomlTable&) {}).empty());
}

TEST(Errors, UnknownNamesSuggestTheNearest) {
  const std::vector<std::string_view> valid = {"op-fence", "equal-compute", "equal-number", "random"};
  EXPECT_EQ(unknown_name("op-fense", valid), "\"op-fense\" is not known; did you mean \"op-fence\"?");
  EXPECT_EQ(unknown_name("xyz", valid),
            "\"xyz\" is not known; valid: \"op-fence\", \"equal-compute\", \"equal-number\", \"random\"");
  EXPECT_EQ(unknown_name("equal-compte", valid), "\"equal-compte\" is not known; did you mean \"equal-compute\"?");
  EXPECT_EQ(unknown_name("x", {}), "\"x\" is not known");
  EXPECT_EQ(unknown_name("fence", valid), "\"fence\" is not known; did you mean \"op-fence\"?");
  const std::vector<std::string_view> letters = {"a", "b"};
  EXPECT_EQ(unknown_name("x", letters), "\"x\" is not known; valid: \"a\", \"b\"");  // no letter is near another
  EXPECT_EQ(unknown_name("", letters), "\"\" is not known; valid: \"a\", \"b\"");
}

TEST(Errors, MessagesStayOnOneLine) {
  EXPECT_STREQ(InputError("f", "k", "a\nb\x1b[31m", 3).what(), "f:3: k: a\\nb\\x1b[31m");
  EXPECT_EQ(in_quotes("a\tb"), "\"a\\tb\"");
  // A cut falls between characters: 79 letters, then two-byte characters.
  const std::string cut = in_quotes(std::string(79, 'a') + "\u00e9\u00e9");
  EXPECT_EQ(cut, '"' + std::string(79, 'a') + "...\" (83 characters)");
}

}  // namespace
}  // namespace fusion
