#include "exec/bpe.h"

#include <algorithm>
#include <queue>
#include <string>
#include <tuple>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json_file.h"
#include "exec/bpe_unicode.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

using Ids = std::unordered_map<std::string, std::int32_t>;

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// GPT-2's bytes_to_unicode: printable bytes of Latin-1 are themselves, the others U+0100 and on, in order.
std::array<std::string, 256> alphabet() {
  std::array<std::string, 256> symbols;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < symbols.size(); ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const unsigned code = printable ? byte : next++;
    if (code < 0x80)
      symbols[byte] = {static_cast<char>(code)};
    else
      symbols[byte] = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  }
  return symbols;
}

Ids load_vocabulary(const fs::path& path) {
  const JsonObject object = load_json(path);
  Ids ids;
  std::unordered_map<std::int64_t, std::string> owner;
  for (const std::string& token : object.keys()) {
    const std::int64_t id = object.integer(token, 0, INT32_MAX - 1);
    if (const auto [other, fresh] = owner.emplace(id, token); !fresh)
      throw object.error(token, "has id " + std::to_string(id) + ", which " + in_quotes(other->second) + " has too");
    ids.emplace(token, static_cast<std::int32_t>(id));
  }
  return ids;
}

void set_bytes(BytePairs& pairs, const Ids& ids, const fs::path& path) {
  const auto symbols = alphabet();
  for (std::size_t byte = 0; byte < symbols.size(); ++byte) {
    const auto found = ids.find(symbols[byte]);
    if (found == ids.end())
      throw InputError(path.string(), symbols[byte], "is missing: byte " + std::to_string(byte) + " has no token");
    pairs.byte_ids[byte] = found->second;
  }
  for (const auto& [token, id] : ids) pairs.vocabulary = std::max<std::int64_t>(pairs.vocabulary, id + 1);
}

/// Adds the merge "LEFT RIGHT" of one line. Throws std::invalid_argument.
void add_merge(BytePairs& pairs, const Ids& ids, std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space >= line.size() - 1 || line.find(' ', space + 1) != std::string_view::npos)
    throw std::invalid_argument(in_quotes(line) + " is not two tokens with a space between them");
  const std::string left(line.substr(0, space)), right(line.substr(space + 1));
  const auto id_of = [&](const std::string& token) {
    const auto found = ids.find(token);
    if (found == ids.end()) throw std::invalid_argument(in_quotes(token) + " is not in vocab.json");
    return found->second;
  };
  const auto rank = static_cast<std::int32_t>(pairs.merges.size());
  if (!pairs.merges.emplace(key_of(id_of(left), id_of(right)), BytePairs::Merge{rank, id_of(left + right)}).second)
    throw std::invalid_argument(in_quotes(line) + " stands there twice");
}

void load_merges(BytePairs& pairs, const Ids& ids, const fs::path& path) {
  const std::string text = read_text(path);
  std::string_view rest = text;
  for (int line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view content = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line == 1 && content.starts_with("#version")) continue;
    try {
      add_merge(pairs, ids, content);
    } catch (const std::invalid_argument& error) {
      throw InputError(path.string(), "", error.what(), line);
    }
  }
}

/// "'s", "'ll", … at this place: their length, or 0.
std::size_t contraction_at(std::string_view text, std::size_t at) {
  for (const std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at).starts_with(suffix)) return suffix.size();
  return 0;
}

/// End of the run of characters of one class that starts here.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

/// \s+(?!\S)|\s+ : all white space but its last character, which goes with the word after it; all of it where it is one
/// character alone or nothing follows.
std::size_t end_of_space(std::string_view text, std::size_t at) {
  std::size_t end = at, last = at;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (next.kind != CharacterClass::space) break;
    last = end;
    end += next.bytes;
  }
  return end == text.size() || last == at ? end : last;
}

std::size_t end_of_pre_token(std::string_view text, std::size_t at) {
  if (const std::size_t length = contraction_at(text, at); length > 0) return at + length;
  const std::size_t word = at + (text[at] == ' ' && at + 1 < text.size() ? 1 : 0);  // the optional space before it
  const CharacterClass kind = character_at(text, word).kind;
  return kind == CharacterClass::space ? end_of_space(text, at) : end_of_run(text, word, kind);
}

/// The tokens of one pre-token as a linked list, merged in the order of the reference: of all pairs there are, those of
/// the lowest rank, from left to right; then again.
class Word {
 public:
  Word(const BytePairs& pairs, std::string_view bytes) : pairs_(pairs) {
    for (const char byte : bytes) ids_.push_back(pairs.byte_ids[static_cast<unsigned char>(byte)]);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      next_.push_back(i + 1);
      previous_.push_back(i - 1);
      consider(i);
    }
  }

  std::vector<std::int32_t> merged() {
    std::vector<Place> batch;
    while (!queue_.empty()) {
      batch.clear();
      for (const std::int32_t rank = queue_.top().first; !queue_.empty() && queue_.top().first == rank; queue_.pop())
        batch.push_back(queue_.top());  // ascending in position
      for (const Place& place : batch) merge(place);
    }
    std::vector<std::int32_t> result;
    for (std::size_t i = 0; i < ids_.size(); i = next_[i]) result.push_back(ids_[i]);
    return result;
  }

 private:
  using Place = std::pair<std::int32_t, std::size_t>;  ///< rank, left token

  const BytePairs::Merge* merge_at(std::size_t left) const {
    if (left >= ids_.size() || ids_[left] == gone || next_[left] >= ids_.size()) return nullptr;
    const auto found = pairs_.merges.find(key_of(ids_[left], ids_[next_[left]]));
    return found == pairs_.merges.end() ? nullptr : &found->second;
  }

  void consider(std::size_t left) {
    if (const auto* merge = merge_at(left)) queue_.emplace(merge->rank, left);
  }

  void merge(const Place& place) {
    const auto [rank, left] = place;
    const BytePairs::Merge* found = merge_at(left);
    if (found == nullptr || found->rank != rank) return;  // one of the two has been merged otherwise
    const std::size_t right = next_[left];
    ids_[left] = found->result;
    ids_[right] = gone;
    next_[left] = next_[right];
    if (next_[left] < ids_.size()) previous_[next_[left]] = left;
    consider(left);
    consider(previous_[left]);
  }

  static constexpr std::int32_t gone = -1;
  const BytePairs& pairs_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> next_, previous_;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> queue_;
};

}  // namespace

BytePairs load_byte_pairs(const fs::path& directory) {
  const Ids ids = load_vocabulary(directory / "vocab.json");
  BytePairs pairs;
  set_bytes(pairs, ids, directory / "vocab.json");
  load_merges(pairs, ids, directory / "merges.txt");
  return pairs;
}

std::vector<std::string_view> pre_tokens(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_pre_token(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::int32_t> encode(const BytePairs& pairs, std::string_view text) {
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;  // a text has few words, many times
  std::vector<std::int32_t> tokens;
  for (const std::string_view word : pre_tokens(text)) {
    auto [found, fresh] = known.try_emplace(word);
    if (fresh) found->second = Word(pairs, word).merged();
    tokens.insert(tokens.end(), found->second.begin(), found->second.end());
  }
  return tokens;
}

}  // namespace fusion::exec
