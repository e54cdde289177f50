// Rows of a table, found by their `name`.
#pragma once

#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace fusion {

template <class Rows>
std::vector<std::string_view> names_of(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

/// Throws std::invalid_argument with the nearest names, for a caller that knows file and key.
template <class Rows>
const auto& row_named(const Rows& rows, std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return row;
  throw std::invalid_argument(unknown_name(name, names_of(rows)));
}

}  // namespace fusion
