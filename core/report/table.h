// A text table for people: aligned columns, a ruled header, colour only where the caller says the reader can see it.
#pragma once

#include <string>
#include <vector>

namespace fusion {

enum class Align { left, right };

/// How a row stands out, where colours are on.
enum class Emphasis { none, strong, faint };

struct Column {
  std::string title;
  Align align = Align::left;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column.
  void add(std::vector<std::string> cells, Emphasis emphasis = Emphasis::none);

  /// The whole table, each line ended. Cells are UTF-8; a code point counts as one place.
  std::string render(bool colour) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Emphasis emphasis;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// "12.3", "0.012": a number with `digits` significant digits, never in exponent form.
std::string significant(double value, int digits = 3);

/// "93 %"
std::string percent(double fraction);

}  // namespace fusion
