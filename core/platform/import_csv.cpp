#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/platform/import_export.h"
#include "core/platform/measured_pairs.h"

namespace fusion {
namespace {

constexpr std::array<std::string_view, 4> columns = {"from", "to", "bandwidth", "latency"};
constexpr std::string_view header = "from,to,bandwidth,latency";

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const auto first = text.find_first_not_of(blank);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0;;) {
    const auto end = text.find(separator, start);
    parts.push_back(trim(text.substr(start, end - start)));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

class CsvReader {
 public:
  explicit CsvReader(const std::filesystem::path& path) : file_(path.string()), text_(read_text(path)) {}

  std::vector<MeasuredPair> read() {
    std::vector<MeasuredPair> pairs;
    bool has_header = false;
    for (const std::string_view line : split(without_mark(text_), '\n')) {
      ++line_;
      if (line.empty()) continue;
      if (has_header)
        pairs.push_back(read_row(line));
      else
        check_header(line);
      has_header = true;
    }
    return pairs;
  }

 private:
  /// Spreadsheets put a byte-order mark before the text.
  static std::string_view without_mark(std::string_view text) {
    constexpr std::string_view mark = "\xef\xbb\xbf";
    return text.starts_with(mark) ? text.substr(mark.size()) : text;
  }

  void check_header(std::string_view line) const {
    if (!std::ranges::equal(split(line, ','), columns))
      throw InputError(file_, "", in_quotes(line) + " is not the header; write " + in_quotes(header), line_);
  }

  template <class Parser>
  auto quantity(std::size_t column, std::string_view cell, Parser parser) const {
    try {
      return parser(cell);
    } catch (const std::invalid_argument& reason) {
      throw InputError(file_, columns[column], reason.what(), line_);
    }
  }

  MeasuredPair read_row(std::string_view line) const {
    const auto cells = split(line, ',');
    if (cells.size() != columns.size())
      throw InputError(file_, "",
                       in_quotes(line) + " has " + std::to_string(cells.size()) + " values; write " + in_quotes(header),
                       line_);
    return {std::string(cells[0]),
            std::string(cells[1]),
            quantity(2, cells[2], parse_bandwidth),
            quantity(3, cells[3], parse_latency),
            file_,
            line_};
  }

  std::string file_, text_;
  int line_ = 0;
};

}  // namespace

std::string import_csv(const std::filesystem::path& path, const ImportOptions& options) {
  const auto pairs = CsvReader(path).read();
  if (pairs.empty()) throw InputError(path.string(), "", "has no rows below its header");
  return platform_text(pairs, options);
}

}  // namespace fusion
