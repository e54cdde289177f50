#include "core/base/toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include "core/base/file.h"

namespace fusion {
namespace {

/// A parsed file, and which keys of each of its tables were asked for.
struct Document {
  std::string file;
  toml::table root;
  std::map<const toml::table*, std::set<std::string, std::less<>>> asked;
};

int line_of(const toml::source_region& region) { return static_cast<int>(region.begin.line); }

/// A value as its author wrote it, or nearly: a string without its quotes, anything else as TOML.
std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return node.is_array_of_tables() ? "an array of tables" : "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a real number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

/// `"four" is a string; write an integer`
std::string wrong_kind(const toml::node& node, std::string_view wanted) {
  const std::string subject = node.is_table() || node.is_array_of_tables() ? "" : in_quotes(text_of(node)) + " ";
  return (subject + "is ").append(kind_of(node)).append("; write ").append(wanted);
}

std::string letters_of(std::string_view name) {
  std::string letters;
  std::ranges::copy_if(name, std::back_inserter(letters), [](char c) { return c < '0' || c > '9'; });
  return letters;
}

std::vector<std::string_view> views(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

/// toml++ recurses once per part of a dotted key: a hostile one would overflow the stack.
void refuse_deep_keys(const std::string& file, const std::string& text) {
  constexpr std::ptrdiff_t most_parts = 100;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view key = std::string_view(line).substr(0, line.find('='));
    if (std::count(key.begin(), key.end(), '.') > most_parts)
      throw InputError(file, "", "a key has more than " + std::to_string(most_parts) + " parts", number);
  }
}

toml::table parse(const std::string& file, const std::string& text) {
  refuse_deep_keys(file, text);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw InputError(file, "", std::string(error.description()), line_of(error.source()));
  }
}

}  // namespace

struct TomlTable::Node {
  std::shared_ptr<Document> document;
  const toml::table* table = nullptr;
  std::string path;  ///< "site.host"; empty at the root

  std::set<std::string, std::less<>>& asked() const { return document->asked[table]; }
  void ask(std::string_view key) const { asked().emplace(key); }
  std::string qualified(std::string_view key) const {
    return path.empty() ? std::string(key) : path + "." + std::string(key);
  }

  int line(std::string_view key) const {
    const auto found = table->find(key);
    return line_of(found != table->end() ? found->first.source() : table->source());
  }

  InputError error(std::string_view key, std::string_view message) const {
    return InputError(document->file, qualified(key), message, line(key));
  }

  /// Keys in file order.
  std::vector<std::string> keys() const {
    std::vector<std::pair<toml::source_position, std::string>> ordered;
    for (const auto& [key, value] : *table) ordered.emplace_back(key.source().begin, key.str());
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> names;
    for (auto& [where, key] : ordered) names.push_back(std::move(key));
    return names;
  }

  const toml::node* find(std::string_view key) const {
    ask(key);
    return table->get(key);
  }

  const toml::node& need(std::string_view key) const {
    if (const auto* node = find(key)) return *node;
    throw missing(key);
  }

  /// A key that nobody asked for yet and that looks like `key` is probably that key misspelt; one with another number
  /// ("peak_fp16" for "peak_fp32") is not.
  InputError missing(std::string_view key) const {
    for (const auto& present : keys())
      if (!asked().contains(present) && letters_of(present) != letters_of(key) &&
          !nearest_names(present, std::array{key}).empty())
        return error(present, in_quotes(key) + " is missing; did you mean " + in_quotes(key) + " instead of " +
                                  in_quotes(present) + "?");
    return error(key, "is missing");
  }

  double finite(std::string_view key, const toml::node& node, std::string_view wanted) const {
    const auto number = node.is_number() ? node.value<double>() : std::nullopt;
    if (!number) throw error(key, wrong_kind(node, wanted));
    if (!std::isfinite(*number))
      throw error(key, in_quotes(text_of(node)) + " is not finite; write " + std::string(wanted));
    return *number;
  }

  const toml::array& array(std::string_view key, std::string_view wanted) const {
    const auto& node = need(key);
    if (!node.is_array()) throw error(key, wrong_kind(node, wanted));
    return *node.as_array();
  }

  template <class T>
  std::vector<T> array_of(std::string_view key, std::string_view wanted) const {
    std::vector<T> values;
    for (const auto& element : array(key, wanted)) {
      const auto* value = element.as<T>();
      if (value == nullptr) throw error(key, wrong_kind(element, wanted));
      values.push_back(value->get());
    }
    return values;
  }

  template <class Parser>
  auto quantity(std::string_view key, Parser parser) const {
    const auto& node = need(key);
    try {
      return parser(text_of(node));
    } catch (const std::invalid_argument& reason) {
      throw error(key, reason.what());
    }
  }

  std::vector<double> row(std::string_view key, const toml::node& node, std::size_t length) const {
    constexpr std::string_view wanted = "rows of numbers, like [[1, 2], [3, 4]]";
    const auto* numbers = node.as_array();
    if (numbers == nullptr) throw error(key, wrong_kind(node, wanted));
    if (numbers->size() != length)
      throw error(key, "has rows of " + std::to_string(length) + " and of " + std::to_string(numbers->size()) +
                           " numbers; all rows must have one length");
    std::vector<double> values;
    for (const auto& number : *numbers) values.push_back(finite(key, number, wanted));
    return values;
  }
};

bool TomlTable::has(std::string_view key) const { return node_->find(key) != nullptr; }

std::string TomlTable::string(std::string_view key) const {
  const auto& node = node_->need(key);
  if (!node.is_string()) throw error(key, wrong_kind(node, "a string"));
  return node.as_string()->get();
}

std::string TomlTable::string(std::string_view key, std::string_view fallback) const {
  return has(key) ? string(key) : std::string(fallback);
}

std::int64_t TomlTable::integer(std::string_view key, std::optional<std::int64_t> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const auto& node = node_->need(key);
  if (!node.is_integer()) throw error(key, wrong_kind(node, "an integer"));
  return node.as_integer()->get();
}

double TomlTable::real(std::string_view key, std::optional<double> fallback) const {
  if (fallback && !has(key)) return *fallback;
  return node_->finite(key, node_->need(key), "a number");
}

bool TomlTable::boolean(std::string_view key, std::optional<bool> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const auto& node = node_->need(key);
  if (!node.is_boolean()) throw error(key, wrong_kind(node, "true or false"));
  return node.as_boolean()->get();
}

std::vector<std::string> TomlTable::strings(std::string_view key) const {
  return node_->array_of<std::string>(key, "an array of strings");
}

std::vector<std::int64_t> TomlTable::integers(std::string_view key) const {
  return node_->array_of<std::int64_t>(key, "an array of integers");
}

std::vector<std::vector<double>> TomlTable::matrix(std::string_view key) const {
  std::vector<std::vector<double>> rows;
  for (const auto& row : node_->array(key, "rows of numbers, like [[1, 2], [3, 4]]")) {
    const std::size_t length = rows.empty() && row.is_array() ? row.as_array()->size()
                               : rows.empty()                 ? 0
                                                              : rows[0].size();
    rows.push_back(node_->row(key, row, length));
  }
  return rows;
}

BytesPerSecond TomlTable::bandwidth(std::string_view key) const { return node_->quantity(key, parse_bandwidth); }
Seconds TomlTable::seconds(std::string_view key) const { return node_->quantity(key, parse_seconds); }
Seconds TomlTable::latency(std::string_view key) const {
  return node_->quantity(key, [](const std::string& text) {
    if (text == "none") return Seconds(0);
    try {
      return parse_latency(text);
    } catch (const std::invalid_argument& reason) {
      throw std::invalid_argument(std::string(reason.what()) + ", or \"none\"");
    }
  });
}
Bytes TomlTable::bytes(std::string_view key) const { return node_->quantity(key, parse_bytes); }
FlopsPerSecond TomlTable::flops_per_second(std::string_view key) const {
  return node_->quantity(key, parse_flops_per_second);
}

TomlTable TomlTable::table(std::string_view key) const {
  const auto& node = node_->need(key);
  if (!node.is_table()) throw error(key, wrong_kind(node, "a table, like [" + node_->qualified(key) + "]"));
  TomlTable inner;
  inner.node_ = std::make_shared<Node>(Node{node_->document, node.as_table(), node_->qualified(key)});
  return inner;
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) const {
  std::vector<TomlTable> all;
  if (!has(key)) return all;
  const std::string wanted = "[[" + node_->qualified(key) + "]], once for each";
  for (const auto& element : node_->array(key, wanted)) {
    if (!element.is_table()) throw error(key, wrong_kind(element, wanted));
    TomlTable inner;
    inner.node_ = std::make_shared<Node>(Node{node_->document, element.as_table(), node_->qualified(key)});
    all.push_back(std::move(inner));
  }
  return all;
}

std::vector<std::string> TomlTable::keys() const { return node_->keys(); }

void TomlTable::reject_unknown() const {
  const std::vector<std::string> valid(node_->asked().begin(), node_->asked().end());
  for (const auto& key : keys())
    if (!node_->asked().contains(key)) throw error(key, unknown_name(key, views(valid)));
}

InputError TomlTable::error(std::string_view key, std::string_view message) const { return node_->error(key, message); }

const std::string& TomlTable::file() const { return node_->document->file; }

std::string TomlTable::place(std::string_view key) const { return file() + ":" + std::to_string(node_->line(key)); }

TomlTable load_toml(const std::filesystem::path& path) {
  auto document = std::make_shared<Document>();
  document->file = path.string();
  document->root = parse(document->file, read_text(path));
  if (document->root.empty()) throw InputError(document->file, "", "is empty");
  TomlTable root;
  root.node_ = std::make_shared<TomlTable::Node>();
  root.node_->document = document;
  root.node_->table = &document->root;
  return root;
}

}  // namespace fusion
