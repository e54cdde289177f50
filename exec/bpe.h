// Byte-pair encoding as GPT-2 does it, from the two files that it is published with.
//
// A text is cut into pre-tokens by the pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// (case matters, the first alternative that matches is taken), and each pre-token's bytes are merged, the pair of
// lowest rank first. \p{L}, \p{N} and \s are those of Unicode 17.0 (bpe_unicode.h). Text that is not UTF-8 keeps every
// byte, as [^\s\p{L}\p{N}]. Special tokens such as <|endoftext|> are never produced: their characters are text.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fusion::exec {

struct BytePairs {
  std::int64_t vocabulary = 0;               ///< highest id + 1
  std::array<std::int32_t, 256> byte_ids{};  ///< token of every single byte
  struct Merge {
    std::int32_t rank = 0, result = 0;
  };
  std::unordered_map<std::uint64_t, Merge> merges;  ///< by left id x 2^32 + right id; looked up, never walked
};

/// DIRECTORY/vocab.json (token to id; tokens in GPT-2's alphabet, which writes byte 0x20 as "Ġ") and
/// DIRECTORY/merges.txt (one pair a line, best first; a first line "#version: …" is skipped). Throws InputError: an id
/// twice, a byte without a token, a merge twice, of unknown tokens or into one.
BytePairs load_byte_pairs(const std::filesystem::path& directory);

std::vector<std::string_view> pre_tokens(std::string_view text);

/// Takes n log n time for any text of n bytes.
std::vector<std::int32_t> encode(const BytePairs&, std::string_view text);

}  // namespace fusion::exec
