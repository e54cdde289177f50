#include "core/base/json_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/file.h"

namespace fusion {
using nlohmann::json;

struct JsonObject::Node {
  std::shared_ptr<const json> root;
  std::string file, path;  ///< path of this object in the file: "stages[2]"
  const json* value = nullptr;
  mutable std::set<std::string, std::less<>> asked;
};

namespace {

/// A value as it stands in the file, cut where it is long.
std::string shown(const json& value) {
  constexpr std::size_t longest = 60;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

/// Printing a value recurses, and a hostile file nests a million times.
bool is_too_deep(std::string_view text) {
  constexpr int most = 100;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > most) return true;
  }
  return false;
}

/// Throws for a key that an object has twice: of two values that one would silently win.
json parse_without_repeats(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> open;
  return json::parse(text, [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      throw InputError(file, parsed.get<std::string>(), "stands twice in one object");
    return true;
  });
}

}  // namespace

std::string JsonObject::path_of(std::string_view key) const {
  return node_->path.empty() ? std::string(key) : node_->path + "." + std::string(key);
}

InputError JsonObject::error(std::string_view key, std::string_view message) const {
  return InputError(node_->file, path_of(key), message);
}

const json* JsonObject::find(std::string_view key) const {
  node_->asked.emplace(key);
  const auto it = node_->value->find(key);
  return it == node_->value->end() ? nullptr : &*it;
}

const json& JsonObject::require(std::string_view key) const {
  if (const json* value = find(key)) return *value;
  throw error(key, "is missing");
}

bool JsonObject::has(std::string_view key) const { return find(key) != nullptr; }

bool JsonObject::has_value(std::string_view key) const {
  const json* value = find(key);
  return value != nullptr && !value->is_null();
}

std::string JsonObject::string(std::string_view key, std::optional<std::string> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const json& value = require(key);
  if (!value.is_string()) throw error(key, shown(value) + " is not a string");
  return value.get<std::string>();
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high,
                                 std::optional<std::int64_t> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const json& value = require(key);
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (!value.is_number_integer() || too_large || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    throw error(key,
                shown(value) + " is not a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value.get<std::int64_t>();
}

double JsonObject::real(std::string_view key, std::optional<double> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const json& value = require(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw error(key, shown(value) + " is not a finite number");
  return value.get<double>();
}

bool JsonObject::boolean(std::string_view key, std::optional<bool> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const json& value = require(key);
  if (!value.is_boolean()) throw error(key, shown(value) + " is not true or false");
  return value.get<bool>();
}

std::vector<std::string> JsonObject::strings(std::string_view key) const {
  const json& list = require(key);
  const auto is_string = [](const json& item) { return item.is_string(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_string))
    throw error(key, shown(list) + " is not a list of strings");
  return list.get<std::vector<std::string>>();
}

std::vector<double> JsonObject::reals(std::string_view key) const {
  const json& list = require(key);
  const auto is_number = [](const json& item) { return item.is_number() && std::isfinite(item.get<double>()); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_number))
    throw error(key, shown(list) + " is not a list of finite numbers");
  return list.get<std::vector<double>>();
}

std::vector<std::int64_t> JsonObject::integers(std::string_view key) const {
  const json& list = require(key);
  const auto fits = [](const json& item) {
    return item.is_number_unsigned() && item.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), fits))
    throw error(key, shown(list) + " is not a list of whole numbers from 0");
  return list.get<std::vector<std::int64_t>>();
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : node_->value->items()) names.push_back(key);
  return names;
}

JsonObject JsonObject::child(const json& value, std::string path) const {
  JsonObject object;
  object.node_ = std::make_shared<Node>(Node{node_->root, node_->file, std::move(path), &value, {}});
  return object;
}

JsonObject JsonObject::object(std::string_view key) const {
  const json& value = require(key);
  if (!value.is_object()) throw error(key, shown(value) + " is not an object");
  return child(value, path_of(key));
}

std::vector<JsonObject> JsonObject::objects(std::string_view key) const {
  const json& list = require(key);
  if (!list.is_array()) throw error(key, shown(list) + " is not a list of objects");
  std::vector<JsonObject> objects;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = path_of(key) + "[" + std::to_string(i) + "]";
    if (!list[i].is_object()) throw InputError(node_->file, path, shown(list[i]) + " is not an object");
    objects.push_back(child(list[i], path));
  }
  return objects;
}

void JsonObject::reject_unknown() const {
  const std::vector<std::string_view> valid(node_->asked.begin(), node_->asked.end());
  for (const auto& [key, value] : node_->value->items())
    if (!node_->asked.contains(key)) throw error(key, unknown_name(key, valid));
}

JsonObject load_json(const std::filesystem::path& path) { return parse_json(read_text(path), path.string()); }

JsonObject parse_json(std::string_view text, const std::string& file) {
  if (is_too_deep(text)) throw InputError(file, "", "is nested more than 100 levels deep");
  std::shared_ptr<const json> root;
  try {
    root = std::make_shared<const json>(parse_without_repeats(text, file));
  } catch (const json::parse_error& fault) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(fault.byte, text.size()));
    const int line = 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
    throw InputError(file, "", "is not JSON, or is cut off", line);
  } catch (const json::out_of_range&) {
    throw InputError(file, "", "holds a number beyond the range of a double");
  }
  if (!root->is_object()) throw InputError(file, "", "is not a JSON object");
  JsonObject object;
  object.node_ = std::make_shared<JsonObject::Node>(JsonObject::Node{root, file, "", root.get(), {}});
  return object;
}

}  // namespace fusion
