// Reads JSON files strictly, the way toml_file.h reads TOML: every value is asked for by name and type, errors name
// file, key and value ("schedule.json: stages[2].device: …").
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace fusion {

/// One object of a JSON file. Cheap to copy; keeps the file alive. Every getter without a fallback requires its key.
class JsonObject {
 public:
  bool has(std::string_view key) const;
  bool has_value(std::string_view key) const;  ///< there, and not null

  std::string string(std::string_view key, std::optional<std::string> fallback = {}) const;
  /// A whole number in [low, high]; the error shows the range.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> fallback = {}) const;
  /// A finite number.
  double real(std::string_view key, std::optional<double> fallback = {}) const;
  bool boolean(std::string_view key, std::optional<bool> fallback = {}) const;
  std::vector<std::string> strings(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;  ///< whole numbers in [0, 2^63)
  JsonObject object(std::string_view key) const;
  std::vector<JsonObject> objects(std::string_view key) const;
  std::vector<std::string> keys() const;  ///< sorted; does not count as asking

  /// Throws InputError for the first key nobody asked for, with the nearest of those that were.
  void reject_unknown() const;

  /// An InputError at this object's `key`, for what only the caller can judge.
  InputError error(std::string_view key, std::string_view message) const;

 private:
  friend JsonObject parse_json(std::string_view, const std::string&);
  struct Node;
  const nlohmann::json* find(std::string_view key) const;
  const nlohmann::json& require(std::string_view key) const;
  JsonObject child(const nlohmann::json&, std::string path) const;
  std::string path_of(std::string_view key) const;
  std::shared_ptr<const Node> node_;
};

/// The root object. Throws InputError: no such file, empty, not text, not JSON (with line), not an object.
JsonObject load_json(const std::filesystem::path&);

/// The root object of a text that stands inside the file named `file`. Throws InputError like load_json, and for more
/// than 100 levels of nesting.
JsonObject parse_json(std::string_view text, const std::string& file);

}  // namespace fusion
