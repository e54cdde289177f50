// fusion-sim compare: two reports side by side, e.g. a simulated and an executed one.
#include <cmath>
#include <map>

#include "core/report/report.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  std::string left, right;
};

/// One compared figure. A side that lacks it shows "-".
struct Pair {
  std::string group, name;
  std::optional<double> left, right;
  bool is_bytes = false;
};

/// (right - left) / left.
std::optional<double> relative_difference(const Pair& pair) {
  if (!pair.left || !pair.right) return {};
  if (*pair.left == *pair.right) return 0;
  if (*pair.left == 0) return {};
  return (*pair.right - *pair.left) / *pair.left;
}

/// Joins two lists by name, in the left one's order, then what only the right one has.
template <class Items, class Name, class Value>
void join(std::vector<Pair>& pairs, const std::string& group, const Items& left, const Items& right, Name name_of,
          Value value_of, bool is_bytes = false) {
  std::map<std::string, double> on_right;
  for (const auto& item : right) on_right.emplace(name_of(item), value_of(item));
  for (const auto& item : left) {
    const std::string name = name_of(item);
    Pair pair{group, name, value_of(item), {}, is_bytes};
    if (const auto node = on_right.extract(name)) pair.right = node.mapped();
    pairs.push_back(std::move(pair));
  }
  for (const auto& [name, value] : on_right) pairs.push_back({group, name, {}, value, is_bytes});
}

std::vector<Pair> pairs_of(const Report& left, const Report& right) {
  std::vector<Pair> pairs = {{"iteration", "", left.iteration.value, right.iteration.value}};
  const auto device = [](const DeviceReport& d) { return d.name; };
  const auto channel = [](const LinkReport& l) { return l.from + " > " + l.to; };
  const auto kind = [](const KindReport& k) { return k.name; };
  join(pairs, "task kind", left.task_kinds, right.task_kinds, kind, [](const KindReport& k) { return k.total.value; });
  join(pairs, "device busy", left.devices, right.devices, device, [](const DeviceReport& d) { return d.busy.value; });
  join(pairs, "link busy", left.links, right.links, channel, [](const LinkReport& l) { return l.busy.value; });
  join(
      pairs, "link bytes", left.links, right.links, channel,
      [](const LinkReport& l) { return static_cast<double>(l.bytes.value); }, true);
  return pairs;
}

std::string shown(std::optional<double> value, bool is_bytes) {
  if (!value) return "-";
  return is_bytes ? format(Bytes(static_cast<std::int64_t>(*value))) : format(Seconds(*value));
}

std::string signed_percent(double fraction) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%+.2f %%", 100 * fraction);
  return fraction == 0 ? "0 %" : buffer;
}

std::string label_of(const std::string& file, const Report& report) {
  return file + ": " + report.engine + " " + report.info.policy + ", " + report.info.compress;
}

Table table_of(const std::vector<Pair>& pairs, const std::string& left, const std::string& right) {
  Table table({{"figure"}, {"of"}, {left, Align::right}, {right, Align::right}, {"difference", Align::right}});
  for (const Pair& pair : pairs) {
    const auto difference = relative_difference(pair);
    table.add({pair.group, pair.name, shown(pair.left, pair.is_bytes), shown(pair.right, pair.is_bytes),
               difference ? signed_percent(*difference) : "-"},
              pair.group == "iteration" ? Emphasis::strong : Emphasis::none);
  }
  return table;
}

nlohmann::ordered_json to_json(const std::vector<Pair>& pairs) {
  const auto number = [](std::optional<double> value) { return value ? nlohmann::ordered_json(*value) : nullptr; };
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Pair& pair : pairs)
    list.push_back({{"figure", pair.group},
                    {"of", pair.name},
                    {"unit", pair.is_bytes ? "bytes" : "s"},
                    {"left", number(pair.left)},
                    {"right", number(pair.right)},
                    {"relative_error", number(relative_difference(pair))}});
  return list;
}

void warn_if_unlike(const Report& left, const Report& right, const Output& output) {
  if (left.info.model != right.info.model)
    note(output, "note: the models differ: " + left.info.model + " and " + right.info.model);
  if (left.info.platform != right.info.platform)
    note(output, "note: the platforms differ: " + left.info.platform + " and " + right.info.platform);
  if (left.info.samples != right.info.samples)
    note(output, "note: samples per iteration differ: " + std::to_string(left.info.samples) + " and " +
                     std::to_string(right.info.samples));
}

void compare_reports(const Options& options) {
  const Report left = read_report(options.left), right = read_report(options.right);
  const std::vector<Pair> pairs = pairs_of(left, right);
  options.output.json ? print(to_json(pairs))
                      : print(table_of(pairs, label_of(options.left, left), label_of(options.right, right)));
  warn_if_unlike(left, right, options.output);
}

}  // namespace

void declare_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "two reports side by side, with the relative difference");
  const auto options = std::make_shared<Options>();
  command->add_option("left", options->left, "report.json to compare with")->required();
  command->add_option("right", options->right, "report.json that is compared")->required();
  add_output_flags(*command, options->output);
  command->footer("Example:\n  fusion-sim compare simulated.json executed.json");
  command->callback([options] { compare_reports(*options); });
}

}  // namespace fusion::sim
