// The strict JSON reader: what it takes, and that every refusal names file, key and value.
#include "core/base/json_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {

using testing::HasSubstr;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

class JsonFile : public testing::Test {
 protected:
  std::filesystem::path write(std::string_view text) {
    const auto path = folder_.path() / "x.json";
    write_text(path, text);
    return path;
  }
  TemporaryFolder folder_;
};

TEST_F(JsonFile, ReadsWhatIsThere) {
  const auto root = load_json(write(R"({"n": 3, "x": 2.5, "name": "a", "list": [{"k": true}, {"k": false}]})"));
  EXPECT_EQ(root.integer("n", 0, 10), 3);
  EXPECT_DOUBLE_EQ(root.real("x"), 2.5);
  EXPECT_EQ(root.string("name"), "a");
  EXPECT_EQ(root.integer("absent", 0, 10, 7), 7);
  ASSERT_EQ(root.objects("list").size(), 2u);
  EXPECT_FALSE(root.objects("list")[1].boolean("k"));
  root.reject_unknown();
}

TEST_F(JsonFile, RefusalsNameFileKeyAndValue) {
  const auto root =
      load_json(write(R"({"n": 3.5, "big": 18446744073709551615, "o": {"k": 1}, "list": [{"k": "v"}, 5]})"));
  EXPECT_THAT(message_of([&] { root.integer("n", 1, 9); }),
              HasSubstr("x.json: n: 3.5 is not a whole number from 1 to 9"));
  EXPECT_THAT(message_of([&] { root.integer("big", 1, 9); }), HasSubstr("18446744073709551615"));
  EXPECT_THAT(message_of([&] { root.string("gone"); }), HasSubstr("gone: is missing"));
  EXPECT_THAT(message_of([&] { root.object("o").string("k"); }), HasSubstr("o.k: 1 is not a string"));
  EXPECT_THAT(message_of([&] { root.objects("list"); }), HasSubstr("list[1]: 5 is not an object"));
  EXPECT_THAT(message_of([&] { root.reals("o"); }), HasSubstr("o: {\"k\":1} is not a list"));
}

TEST_F(JsonFile, UnknownKeysGetTheNearestName) {
  const auto root = load_json(write(R"({"stages": 1, "modle": 2})"));
  (void)root.has("stages"), (void)root.has("model");
  EXPECT_THAT(message_of([&] { root.reject_unknown(); }),
              HasSubstr("modle: \"modle\" is not known; did you mean \"model\"?"));
}

TEST_F(JsonFile, RefusesWhatIsNoJsonObject) {
  EXPECT_THAT(message_of([&] { load_json(folder_.path() / "gone.json"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { load_json(folder_.path()); }), HasSubstr("is a directory"));
  EXPECT_THAT(message_of([&] { load_json(write(" \n")); }), HasSubstr("is empty"));
  EXPECT_THAT(message_of([&] { load_json(write(std::string_view("\x7f\0ELF", 5))); }), HasSubstr("not a text file"));
  EXPECT_THAT(message_of([&] { load_json(write("{\"a\": 1,\n\"b\": ")); }), HasSubstr("x.json:2: is not JSON"));
  EXPECT_THAT(message_of([&] { load_json(write("[1]")); }), HasSubstr("is not a JSON object"));
  EXPECT_THAT(message_of([&] { load_json(write("{\"a\": NaN}")); }), HasSubstr("is not JSON"));
}

TEST_F(JsonFile, AKeyThatStandsTwiceIsRefused) {
  for (const char* text :
       {R"({"a": 1, "a": 1})", R"({"b": {"c": 0, "a": 1, "a": 2}})", R"({"l": [{}, {"a": 1, "a": {}}]})"})
    EXPECT_THAT(message_of([&] { load_json(write(text)); }), HasSubstr("x.json: a: stands twice")) << text;
  load_json(write(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"));  // objects of their own
}

TEST_F(JsonFile, ListsOfWholeNumbersAreThat) {
  const auto root = load_json(write(R"({"shape": [2, 0, 9223372036854775807], "empty": []})"));
  EXPECT_EQ(root.integers("shape"), (std::vector<std::int64_t>{2, 0, INT64_MAX}));
  EXPECT_TRUE(root.integers("empty").empty());
  for (const char* list : {"[-1]", "[1.0]", "[9223372036854775808]", "[\"1\"]", "[[1]]", "1", "null"})
    EXPECT_THAT(message_of([&] { parse_json("{\"a\": " + std::string(list) + "}", "f").integers("a"); }),
                HasSubstr("is not a list of whole numbers"));
}

TEST_F(JsonFile, KeysAreSortedAndDoNotCountAsAskedFor) {
  const auto root = load_json(write(R"({"b": 1, "a": 2})"));
  EXPECT_EQ(root.keys(), (std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(message_of([&] { root.reject_unknown(); }), HasSubstr("\"a\""));
}

TEST_F(JsonFile, DeepNestingIsRefusedBeforeItIsWalked) {
  const auto nested = [](std::size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(parse_json(nested(100), "f").keys().size(), 1U);
  EXPECT_THAT(message_of([&] { parse_json(nested(101), "f"); }), HasSubstr("f: is nested more than 100 levels deep"));
  EXPECT_THAT(message_of([&] { parse_json(nested(1'000'000), "f"); }), HasSubstr("100 levels"));
  EXPECT_EQ(parse_json("{\"" + std::string(200, '[') + "\\\"[\": 1}", "f").keys().size(), 1U);  // inside a string
}

TEST_F(JsonFile, WritingIsAllOrNothing) {
  const auto path = folder_.path() / "no-such-folder" / "x.json";
  EXPECT_THAT(message_of([&] { write_text(path, "text"); }), HasSubstr("can't be written"));
  write("{}");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);  // no temporary file is left
}

TEST_F(JsonFile, WritingFollowsALinkAndKeepsAPipe) {
  const auto target = write("{}"), link = folder_.path() / "link.json", pipe = folder_.path() / "pipe";
  std::filesystem::create_symlink(target, link);
  write_text(link, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_text(target), "new");

  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_text(pipe, "through");
  char buffer[16] = {};
  EXPECT_EQ(::read(reader, buffer, sizeof buffer), 7);
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace fusion
