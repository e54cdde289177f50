#include "core/platform/measured_ops.h"

#include <algorithm>
#include <string>

#include "core/base/json_file.h"

namespace fusion {
namespace {

double amount(const JsonObject& op, std::string_view key) {
  const double value = op.real(key);
  if (value < 0) throw op.error(key, std::to_string(value) + " is negative");
  return value;
}

}  // namespace

std::vector<MeasuredOp> load_measured_ops(const std::filesystem::path& file) {
  std::vector<MeasuredOp> ops;
  for (const JsonObject& op : load_json(file).objects("ops"))
    ops.push_back({.name = op.string("name"),
                   .forward_flops = Flops(amount(op, "forward_flops")),
                   .backward_flops = Flops(amount(op, "backward_flops")),
                   .forward = Seconds(amount(op, "forward_s")),
                   .backward = Seconds(amount(op, "backward_s"))});
  std::ranges::sort(ops, {}, &MeasuredOp::name);
  const auto twice = std::ranges::adjacent_find(ops, {}, &MeasuredOp::name);
  if (twice != ops.end()) throw InputError(file.string(), "ops", in_quotes(twice->name) + " is given twice");
  return ops;
}

}  // namespace fusion
