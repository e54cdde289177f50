#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "exec/backend_rows.h"

namespace fusion::exec {

std::span<const BackendRow> backend_table() {
  static const std::array<BackendRow, 2> table = {torch_row(), eigen_row()};
  return table;
}

const BackendRow& find_backend(std::string_view name) {
  const auto rows = backend_table();
  const auto found = std::ranges::find(rows, name, &BackendRow::name);
  if (found != rows.end()) return *found;
  std::vector<std::string_view> names;
  for (const BackendRow& row : rows) names.push_back(row.name);
  throw InputError("", "backend", unknown_name(name, names));
}

}  // namespace fusion::exec
