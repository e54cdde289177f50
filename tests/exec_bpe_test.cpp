// GPT-2's byte-pair encoding: against the pattern's own matches, and a transcription of the published algorithm.
#include "exec/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "core/base/error.h"
#include "exec/bpe_unicode.h"
#include "tests/support/temporary_folder.h"

namespace fusion::exec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Words = std::vector<std::string>;
using Merges = std::vector<std::pair<std::string, std::string>>;  ///< best first

Words words_of(std::string_view text) {
  Words words;
  for (const std::string_view word : pre_tokens(text)) words.emplace_back(word);
  return words;
}

TEST(PreTokens, EnglishByHand) {
  EXPECT_EQ(words_of("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(words_of("I don't, we'll."), (Words{"I", " don", "'t", ",", " we", "'ll", "."}));
  EXPECT_EQ(words_of("It'S 'sold"), (Words{"It", "'", "S", " '", "sold"}));  // case matters; a space comes first
  EXPECT_EQ(words_of("In 2026 x86"), (Words{"In", " 2026", " x", "86"}));
  EXPECT_EQ(words_of("(a+b)!?"), (Words{"(", "a", "+", "b", ")!?"}));
  EXPECT_EQ(words_of(""), Words{});
}

TEST(PreTokens, TheLastOfSeveralSpacesGoesWithTheWord) {
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words_of("a \nb"), (Words{"a", " ", "\n", "b"}));
  EXPECT_EQ(words_of("a  "), (Words{"a", "  "}));  // nothing follows
  EXPECT_EQ(words_of("a "), (Words{"a", " "}));
}

TEST(PreTokens, AreThePatternsOwnMatches) {
  // Random strings, cut by the pattern itself in Python's `regex` (2026.11.19, which has the Unicode classes).
  const std::pair<std::string, Words> cases[] = {
      {"2v\341\240\216\303\251\302\275'l", {"2", "v", "\341\240\216", "\303\251", "\302\275", "'", "l"}},
      {"b\303\251\302\2401\340\270\263", {"b\303\251", "\302\240", "1", "\340\270\263"}},
      {" \342\200\234\342\200\224-", {" \342\200\234\342\200\224-"}},
      {" v\011 b\360\235\237\230\011\015", {" v", "\011", " b", "\360\235\237\230", "\011\015"}},
      {"'21\360\237\230\200\341\240\216-l", {"'", "21", "\360\237\230\200\341\240\216-", "l"}},
      {",\360\220\220\200_\342\200\231\012 \012\302\275\015l\302\2402a",
       {",", "\360\220\220\200", "_\342\200\231", "\012 ", "\012", "\302\275", "\015", "l", "\302\240", "2", "a"}},
      {"\342\200\203\302\2052\340\270\263\342\200\231 \303\237\344\270\255",
       {"\342\200\203", "\302\205", "2", "\340\270\263", "\342\200\231", " \303\237\344\270\255"}},
      {"1\344\270\255\346\227\245' 2\011SlS\331\243\360\237\230\200\015",
       {"1", "\344\270\255\346\227\245", "'", " 2", "\011", "SlS", "\331\243", "\360\237\230\200", "\015"}},
      {"\342\200\224\360\235\237\230\302\275\034,'\342\200\250 d\303\237 \360\237\230\200",
       {"\342\200\224", "\360\235\237\230\302\275", "\034,'", "\342\200\250", " d\303\237", " \360\237\230\200"}},
      {"\346\227\245\015 !\344\270\255\312\260\343\200\200.\360\237\230\200\302\240 .vT",
       {"\346\227\245", "\015", " !", "\344\270\255\312\260", "\343\200\200", ".\360\237\230\200", "\302\240", " .",
        "vT"}},
      {"\015\340\270\263\343\200\200\314\201\012m,",
       {"\015", "\340\270\263", "\343\200\200", "\314\201", "\012", "m", ","}},
      {"1\331\243bS!\034", {"1\331\243", "bS", "!\034"}},
      {"1\312\260\342\200\250.b", {"1", "\312\260", "\342\200\250", ".", "b"}},
      {"1.'\360\235\237\230\303\237\314\201\342\200\250d1",
       {"1", ".'", "\360\235\237\230", "\303\237", "\314\201", "\342\200\250", "d", "1"}},
      {" \346\227\2451'\011_\342\200\213',\342\200\203a-S",
       {" \346\227\245", "1", "'", "\011", "_\342\200\213',", "\342\200\203", "a", "-", "S"}},
      {"'--1\342\200\203v\346\227\245 \344\270\255 m",
       {"'--", "1", "\342\200\203", "v\346\227\245", " \344\270\255", " m"}},
      {"TT\312\260'", {"TT\312\260", "'"}},
      {"\342\200\250'\342\200\213S\342\200\224\342\205\247\343\200\200\012.Sm\342\200\2341",
       {"\342\200\250", "'\342\200\213", "S", "\342\200\224", "\342\205\247", "\343\200\200", "\012", ".", "Sm",
        "\342\200\234", "1"}},
      {"\360\235\237\230 \302\275 \012\346\227\245\303\237\342\205\247S ",
       {"\360\235\237\230", " \302\275", " ", "\012", "\346\227\245\303\237", "\342\205\247", "S", " "}},
      {"\346\227\245\012\360\235\237\230\344\270\255 \342\205\247 SS\011",
       {"\346\227\245", "\012", "\360\235\237\230", "\344\270\255", " \342\205\247", " SS", "\011"}},
      {"\012\342\200\234  \303\237\011'.", {"\012", "\342\200\234", " ", " \303\237", "\011", "'."}},
      {".\342\200\203m\342\200\203", {".", "\342\200\203", "m", "\342\200\203"}},
      {"\360\235\237\230\360\235\237\230\302\205\312\260S\342\205\247_l\344\270\255 ",
       {"\360\235\237\230\360\235\237\230", "\302\205", "\312\260S", "\342\205\247", "_", "l\344\270\255", " "}},
      {"',1\360\220\220\200\302\275\360\235\237\230.\303\237\342\200\234 \360\235\237\230\342\200\250\015",
       {"',", "1", "\360\220\220\200", "\302\275\360\235\237\230", ".", "\303\237", "\342\200\234", " \360\235\237\230",
        "\342\200\250\015"}},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(text), words) << text;
}

TEST(PreTokens, AnyBytesAreKept) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 30, ' ');
    for (char& c : text) c = static_cast<char>(random());
    std::string joined;
    for (const std::string& word : words_of(text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(CharacterAt, BytesThatAreNotUtf8StandForThemselves) {
  for (const std::string_view bad : {"\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                                     "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_EQ(character_at(bad, 0).bytes, 1U) << testing::PrintToString(bad);
    EXPECT_EQ(character_at(bad, 0).kind, CharacterClass::other);
  }
  EXPECT_EQ(character_at("\xf0\x90\x90\x80", 0).bytes, 4U);  // U+10400, a letter of Deseret
  EXPECT_EQ(character_at("\xf0\x90\x90\x80", 0).kind, CharacterClass::letter);
}

TEST(ClassOf, KnowsTheEdgesOfItsRanges) {
  const auto all = [](CharacterClass kind, std::initializer_list<char32_t> codes) {
    for (const char32_t code : codes) EXPECT_EQ(class_of(code), kind) << static_cast<std::uint32_t>(code);
  };
  all(CharacterClass::letter, {'A', 'Z', 'a', 'z', 0xaa, 0xb5, 0xc0, 0xd6, 0xd8, 0x4e00, 0x9fff, 0xac00, 0xd7a3});
  all(CharacterClass::number, {'0', '9', 0xb2, 0xbc, 0x660, 0x2160, 0x1d7ff});
  all(CharacterClass::space, {'\t', '\n', '\v', '\f', '\r', ' ', 0x85, 0xa0, 0x2028, 0x3000});
  all(CharacterClass::other, {0, 0x1f, '@', '[', '`', '{', '_', 0xd7, 0xf7, 0x2019, 0x301, 0x200b, 0xd800, 0x10ffff});
}

/// bytes_to_unicode of GPT-2's encoder.py.
std::vector<std::string> alphabet() {
  std::vector<unsigned> printable(256, 0);
  for (unsigned b = '!'; b <= '~'; ++b) printable[b] = 1;
  for (unsigned b = 0xa1; b <= 0xac; ++b) printable[b] = 1;
  for (unsigned b = 0xae; b <= 0xff; ++b) printable[b] = 1;
  std::vector<std::string> symbols;
  unsigned n = 0;
  for (unsigned b = 0; b < 256; ++b) {
    const unsigned code = printable[b] == 1 ? b : 256 + n++;
    std::string utf8;
    if (code < 128) {
      utf8 = {static_cast<char>(code)};
    } else {
      utf8 = {static_cast<char>(0xc0 + code / 64), static_cast<char>(0x80 + code % 64)};
    }
    symbols.push_back(utf8);
  }
  return symbols;
}

/// The two files, written for tokens in plain bytes; ids are the bytes, then the merges in order.
class Files {
 public:
  explicit Files(const Merges& merges) {
    for (int b = 0; b < 256; ++b) add(std::string(1, static_cast<char>(b)));
    for (const auto& [left, right] : merges) add(left + right);
    std::string lines = "#version: 0.2\n";
    for (const auto& [left, right] : merges) lines += spelled(left) + ' ' + spelled(right) + '\n';
    write("merges.txt", lines);
    write_vocabulary();
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  void write_vocabulary() const {
    std::string json;
    for (const auto& [token, id] : ids_)
      json += (json.empty() ? "{" : ",") + quoted(spelled(token)) + ":" + std::to_string(id);
    write("vocab.json", json + "}");
  }
  BytePairs load() const { return load_byte_pairs(folder_.path()); }
  std::string refusal() const {
    try {
      load();
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  const std::map<std::string, std::int32_t>& ids() const { return ids_; }

  static std::string spelled(const std::string& bytes) {
    static const std::vector<std::string> symbols = alphabet();
    std::string text;
    for (const char c : bytes) text += symbols[static_cast<unsigned char>(c)];
    return text;
  }

 private:
  void add(const std::string& token) { ids_.emplace(token, static_cast<std::int32_t>(ids_.size())); }
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    return out + '"';
  }
  TemporaryFolder folder_;
  std::map<std::string, std::int32_t> ids_;
};

TEST(Encode, MergesByHand) {
  const Files files(Merges{{"l", "o"}, {"lo", "w"}, {"e", "r"}, {" ", "low"}});
  const BytePairs pairs = files.load();
  EXPECT_EQ(pairs.vocabulary, 260);
  EXPECT_THAT(encode(pairs, "lower"), ElementsAre(257, 258));                   // [low][er]
  EXPECT_THAT(encode(pairs, "low low"), ElementsAre(257, 259));                 // the space belongs to the second word
  EXPECT_THAT(encode(pairs, "lol"), ElementsAre(256, 'l'));                     // [lo][l]
  EXPECT_THAT(encode(pairs, "l\xc3\xb6w"), ElementsAre('l', 0xc3, 0xb6, 'w'));  // bytes without a merge stay
  EXPECT_THAT(encode(pairs, ""), ElementsAre());
}

TEST(Encode, OverlappingPairsMergeFromTheLeft) {
  const BytePairs pairs = Files(Merges{{"a", "a"}, {"aa", "a"}}).load();
  EXPECT_THAT(encode(pairs, "aaa"), ElementsAre(257));        // [aa][a], then [aaa]
  EXPECT_THAT(encode(pairs, "aaaa"), ElementsAre(256, 256));  // both pairs of rank 0 before any of rank 1
  EXPECT_THAT(encode(pairs, "aaaaa"), ElementsAre(256, 257));
}

/// `bpe` of GPT-2's encoder.py, word by word: the pair of lowest rank, all its places from left to right, again.
std::vector<std::int32_t> naive(const Merges& merges, const Files& files, const std::string& text) {
  std::map<std::pair<std::string, std::string>, std::size_t> rank;
  for (const auto& merge : merges) rank.emplace(merge, rank.size());
  std::vector<std::int32_t> tokens;
  for (const std::string& word : words_of(text)) {
    Words parts;
    for (const char c : word) parts.emplace_back(1, c);
    for (;;) {
      std::size_t best = merges.size();
      for (std::size_t i = 0; i + 1 < parts.size(); ++i)
        if (const auto found = rank.find({parts[i], parts[i + 1]}); found != rank.end())
          best = std::min(best, found->second);
      if (best == merges.size()) break;
      Words merged;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool here = i + 1 < parts.size() && std::pair(parts[i], parts[i + 1]) == merges[best];
        merged.push_back(here ? parts[i] + parts[i + 1] : parts[i]);
        if (here) ++i;
      }
      parts = merged;
    }
    for (const std::string& part : parts) tokens.push_back(files.ids().at(part));
  }
  return tokens;
}

/// Random merges over few letters, also such as no training makes: a token by several ways, in any order of ranks.
Merges random_merges(std::mt19937_64& random, std::size_t count) {
  Words tokens = {"a", "b", "c", " "};
  std::set<std::pair<std::string, std::string>> made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
    if (left.size() + right.size() <= 8 && made.emplace(left, right).second) tokens.push_back(left + right);
  }
  Merges merges(made.begin(), made.end());
  std::shuffle(merges.begin(), merges.end(), random);
  return merges;
}

TEST(Encode, FollowsThePublishedAlgorithm) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 30; ++round) {
    const auto merges = random_merges(random, 40);
    const Files files(merges);
    const BytePairs pairs = files.load();
    for (int i = 0; i < 100; ++i) {
      std::string text(random() % 25, ' ');
      for (char& c : text) c = "aaabbcc d"[random() % 9];
      EXPECT_EQ(encode(pairs, text), naive(merges, files, text)) << text;
    }
  }
}

TEST(Encode, TokensAreTheTextAgain) {
  std::mt19937_64 random(3);
  const Files files(random_merges(random, 60));
  const BytePairs pairs = files.load();
  std::map<std::int32_t, std::string> bytes;
  for (const auto& [token, id] : files.ids()) bytes[id] = token;
  for (int i = 0; i < 300; ++i) {
    std::string text(random() % 60, ' '), joined;
    for (char& c : text) c = random() % 4 == 0 ? static_cast<char>(random()) : "abc "[random() % 4];
    for (const std::int32_t id : encode(pairs, text)) joined += bytes.at(id);
    EXPECT_EQ(joined, text);
  }
}

TEST(Encode, OneLongWordIsNotQuadratic) {
  const BytePairs pairs = Files(Merges{{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}).load();
  EXPECT_EQ(encode(pairs, std::string(1 << 20, 'a')).size(), 1U << 17);  // a quadratic one takes hours
}

TEST(LoadBytePairs, SpecialTokensCountInTheVocabularyAndAreNeverProduced) {
  const Files files(Merges{{"a", "b"}});
  std::string json = "{\"<|endoftext|>\":50256";
  for (const auto& [token, id] : files.ids())
    if (token != "\"" && token != "\\") json += ",\"" + Files::spelled(token) + "\":" + std::to_string(id);
  files.write("vocab.json", json + R"(,"\"":34,"\\":92})");
  const BytePairs pairs = files.load();
  EXPECT_EQ(pairs.vocabulary, 50257);
  EXPECT_EQ(encode(pairs, "<|endoftext|>").size(), 13U);
}

TEST(LoadBytePairs, HostileFilesAreRefusedByName) {
  const Files files(Merges{{"a", "b"}});
  const auto merges = [&](const std::string& text) {
    files.write("merges.txt", text);
    return files.refusal();
  };
  EXPECT_THAT(merges("#version: 0.2\na b\nb c\n"), HasSubstr("merges.txt:3: \"bc\" is not in vocab.json"));
  EXPECT_THAT(merges("a b\na b\n"), HasSubstr("merges.txt:2: \"a b\" stands there twice"));
  for (const char* line : {"ab", "a  b", " a b", "a b ", "a b c", "\n"})
    EXPECT_THAT(merges(std::string("#version: 0.2\n") + line + "\na b\n"), HasSubstr("merges.txt:2: ")) << line;
  EXPECT_THAT(merges(""), HasSubstr("merges.txt: is empty"));
  EXPECT_EQ(merges("a b"), "accepted");  // no line break at the end

  const auto vocabulary = [&](const std::string& text) {
    files.write("vocab.json", text);
    return files.refusal();
  };
  EXPECT_THAT(vocabulary("{\"a\":0}"), HasSubstr("byte 0 has no token"));
  EXPECT_THAT(vocabulary("{\"a\":0,\"b\":0}"), HasSubstr("has id 0, which \"a\" has too"));
  EXPECT_THAT(vocabulary("{\"a\":-1}"), HasSubstr("vocab.json: a: -1 is not a whole number"));
  EXPECT_THAT(vocabulary("{\"a\":2147483647}"), HasSubstr("2147483647 is not"));
  EXPECT_THAT(vocabulary("{\"a\":\"0\"}"), HasSubstr("vocab.json: a: "));
  EXPECT_THAT(vocabulary("[]"), HasSubstr("vocab.json: is not a JSON object"));
  EXPECT_THAT(vocabulary("{\"a\":"), HasSubstr("vocab.json:1: is not JSON"));
  EXPECT_THROW(load_byte_pairs("/nowhere"), InputError);
}

}  // namespace
}  // namespace fusion::exec
