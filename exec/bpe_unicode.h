// What the pre-tokenizer of GPT-2 needs to know of Unicode: UTF-8, and the classes \p{L}, \p{N} and \s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fusion::exec {

enum class CharacterClass : std::uint8_t { letter, number, space, other };

/// One character of a text: how many bytes it takes, and its class. A byte that begins no valid UTF-8 sequence stands
/// for itself and is `other`.
struct Character {
  std::size_t bytes = 0;
  CharacterClass kind = CharacterClass::other;
};
/// Precondition: at < text.size().
Character character_at(std::string_view text, std::size_t at);

/// Letters and numbers (the general categories L* and N*) as of Unicode 17.0, white space as of its property.
CharacterClass class_of(char32_t);

}  // namespace fusion::exec
