// Reads our TOML files strictly: every value is asked for by name and type, every key that nobody asked for is an
// error. Errors carry file, line, key, value and what would be right. toml++ stays behind this header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"

namespace fusion {

/// One table of a file. Cheap to copy; keeps the file alive. Every getter without a fallback requires its key.
class TomlTable {
 public:
  bool has(std::string_view key) const;

  std::string string(std::string_view key) const;
  std::string string(std::string_view key, std::string_view fallback) const;
  std::int64_t integer(std::string_view key, std::optional<std::int64_t> fallback = {}) const;
  double real(std::string_view key, std::optional<double> fallback = {}) const;
  bool boolean(std::string_view key, std::optional<bool> fallback = {}) const;
  std::vector<std::string> strings(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<std::vector<double>> matrix(std::string_view key) const;  ///< rows of numbers, all of one length

  // Quantities: a string with its unit. A bare number is an error that shows a right example.
  BytesPerSecond bandwidth(std::string_view key) const;
  Seconds seconds(std::string_view key) const;
  Seconds latency(std::string_view key) const;  ///< above 0, or "none" for 0: data sets that leave it out say so
  Bytes bytes(std::string_view key) const;
  FlopsPerSecond flops_per_second(std::string_view key) const;

  TomlTable table(std::string_view key) const;
  std::vector<TomlTable> tables(std::string_view key) const;  ///< array of tables; empty where the key is absent
  std::vector<std::string> keys() const;                      ///< in file order; does not count as asking

  /// Throws InputError for the first key nobody asked for, with the nearest of those that were.
  /// Call it once all of a table's keys have been read.
  void reject_unknown() const;

  /// An InputError at this table's `key`, for what only the caller can judge.
  InputError error(std::string_view key, std::string_view message) const;
  const std::string& file() const;
  std::string place(std::string_view key) const;  ///< "file:line" of a key, for messages that come later

 private:
  friend TomlTable load_toml(const std::filesystem::path&);
  struct Node;
  std::shared_ptr<Node> node_;
};

/// The root table. Throws InputError: no such file, empty, not text, a syntax error with its line.
TomlTable load_toml(const std::filesystem::path&);

}  // namespace fusion
