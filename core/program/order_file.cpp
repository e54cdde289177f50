#include "core/program/order_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plan/schedule.h"

namespace fusion {
namespace {

constexpr std::string_view letters = "FBIW";  ///< by Phase
constexpr int max_stages = 1 << 20;

/// A cell: a turn by its stage.
struct Cell {
  int stage;
  Phase phase;
  int micro_batch;
};

std::string text_of(const Cell& cell) {
  return std::to_string(cell.stage) + letters[static_cast<std::size_t>(cell.phase)] + std::to_string(cell.micro_batch);
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Calls `visit` with each piece of the text between separators.
template <class Visit>
void for_each_piece(std::string_view text, char separator, Visit visit) {
  for (bool more = true; more;) {
    const std::size_t end = text.find(separator);
    more = end != std::string_view::npos;
    visit(text.substr(0, end));
    if (more) text.remove_prefix(end + 1);
  }
}

/// A number at the front of the text, which is cut off.
std::optional<int> take_number(std::string_view& text, int limit) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || number < 0 || number >= limit) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<Cell> parse_cell(std::string_view text) {
  const auto stage = take_number(text, max_stages);
  if (!stage || text.empty()) return {};
  const std::size_t phase = letters.find(text.front());
  if (phase == std::string_view::npos) return {};
  text.remove_prefix(1);
  const auto micro_batch = take_number(text, max_micro_batches);
  if (!micro_batch || !text.empty()) return {};
  return Cell{*stage, static_cast<Phase>(phase), *micro_batch};
}

std::vector<Cell> parse_line(std::string_view line, const std::string& source, int number) {
  std::vector<Cell> cells;
  for_each_piece(line, ',', [&](std::string_view piece) {
    const std::string_view text = trimmed(piece);
    if (text.empty()) return;
    const auto cell = parse_cell(text);
    if (!cell)
      throw InputError(source, "",
                       in_quotes(text) + " is no turn; write stage, phase (F, B, I, W) and micro-batch, as in 0F1",
                       number);
    cells.push_back(*cell);
  });
  if (cells.empty()) throw InputError(source, "", "a device without a turn; leave its line out", number);
  return cells;
}

/// The chunks of each device are its stages, ascending.
OrderTable table_of(const std::vector<std::vector<Cell>>& lines, const std::string& source) {
  OrderTable table;
  std::map<int, int> line_of;  // by stage
  table.stages.resize(lines.size());
  for (std::size_t d = 0; d < lines.size(); ++d)
    for (const Cell& cell : lines[d]) {
      const int line = static_cast<int>(d) + 1;
      const auto [known, added] = line_of.emplace(cell.stage, line);
      if (known->second != line)
        throw InputError(source, text_of(cell),
                         "stage " + std::to_string(cell.stage) + " is on line " + std::to_string(known->second) +
                             " already; a stage has one device",
                         line);
      if (added) table.stages[d].push_back(cell.stage);
      table.micro_batches = std::max(table.micro_batches, cell.micro_batch + 1);
      table.splits_backward |= cell.phase == Phase::input_gradient || cell.phase == Phase::weight_gradient;
    }
  const int num_stages = static_cast<int>(line_of.size());
  if (line_of.rbegin()->first != num_stages - 1)
    throw InputError(source, "",
                     "stages go up to " + std::to_string(line_of.rbegin()->first) + ", but there are " +
                         std::to_string(num_stages) + " of them: they count from 0 without a gap");
  table.place_of.resize(line_of.size());
  for (std::size_t d = 0; d < lines.size(); ++d) {
    std::ranges::sort(table.stages[d]);
    for (std::size_t c = 0; c < table.stages[d].size(); ++c)
      table.place_of[static_cast<std::size_t>(table.stages[d][c])] = {static_cast<int>(d), static_cast<int>(c)};
    std::vector<Slot> slots;
    for (const Cell& cell : lines[d])
      slots.push_back({cell.phase, table.place_of[static_cast<std::size_t>(cell.stage)].chunk, cell.micro_batch});
    table.devices.push_back(std::move(slots));
  }
  return table;
}

/// Walks all devices at once, each as far as what it waits for has been done.
class Walk {
 public:
  explicit Walk(const OrderTable& table)
      : table_(table),
        next_(table.devices.size(), 0),
        done_(table.place_of.size() * 4 * static_cast<std::size_t>(table.micro_batches), not_yet) {}

  /// The time at which each turn starts if all take one unit; whether all could.
  bool run() {
    starts.resize(table_.devices.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t d = 0; d < next_.size(); ++d) moved |= follow(d);
    }
    return !stuck_device();
  }

  /// "3B0 on line 4 waits for 3F0 on line 4, …" round the circle that stops all.
  std::string circle() const {
    std::vector<std::size_t> passed;
    std::size_t at = *stuck_device();
    for (; std::ranges::find(passed, at) == passed.end(); at = what_it_waits_for(at).second) passed.push_back(at);
    passed.erase(passed.begin(), std::ranges::find(passed, at));
    std::string text;
    for (const std::size_t d : passed) {
      const auto [cell, other] = what_it_waits_for(d);
      text += (text.empty() ? "" : "; ") + on_line(cell_at(d), d) + " waits for " + on_line(cell, other);
    }
    return text;
  }

  std::vector<std::vector<int>> starts;  ///< by device and turn

 private:
  static constexpr int not_yet = -1;

  Cell cell_at(std::size_t d) const {
    const Slot& slot = table_.devices[d][next_[d]];
    return {table_.stages[d][static_cast<std::size_t>(slot.chunk)], slot.phase, slot.micro_batch};
  }
  static std::string on_line(const Cell& cell, std::size_t d) {
    return text_of(cell) + " on line " + std::to_string(d + 1);
  }
  std::size_t index(const Cell& cell) const {
    return (static_cast<std::size_t>(cell.stage) * 4 + static_cast<std::size_t>(cell.phase)) *
               static_cast<std::size_t>(table_.micro_batches) +
           static_cast<std::size_t>(cell.micro_batch);
  }

  template <class Visit>
  void for_each_before(const Cell& cell, Visit visit) const {
    const auto same = [&](int stage, Phase phase) { visit(Cell{stage, phase, cell.micro_batch}); };
    const bool is_last = cell.stage + 1 == static_cast<int>(table_.place_of.size());
    switch (cell.phase) {
      case Phase::forward:
        if (cell.stage > 0) same(cell.stage - 1, Phase::forward);
        break;
      case Phase::weight_gradient:
        same(cell.stage, Phase::input_gradient);
        break;
      default:
        same(cell.stage, Phase::forward);
        if (!is_last) same(cell.stage + 1, cell.phase);
    }
  }

  bool follow(std::size_t d) {
    const std::size_t before = next_[d];
    for (; next_[d] < table_.devices[d].size(); ++next_[d]) {
      const Cell cell = cell_at(d);
      int start = starts[d].empty() ? 0 : starts[d].back() + 1;
      bool ready = true;
      for_each_before(cell, [&](const Cell& needed) {
        const int end = done_[index(needed)];
        ready &= end != not_yet;
        start = std::max(start, end);
      });
      if (!ready) break;
      starts[d].push_back(start);
      done_[index(cell)] = start + 1;
    }
    return next_[d] != before;
  }

  std::optional<std::size_t> stuck_device() const {
    for (std::size_t d = 0; d < next_.size(); ++d)
      if (next_[d] < table_.devices[d].size()) return d;
    return {};
  }

  std::pair<Cell, std::size_t> what_it_waits_for(std::size_t d) const {
    std::optional<Cell> missing;
    for_each_before(cell_at(d), [&](const Cell& needed) {
      if (!missing && done_[index(needed)] == not_yet) missing = needed;
    });
    check(missing.has_value(), "a device that stands still without waiting for anything");
    return {*missing, static_cast<std::size_t>(table_.place_of[static_cast<std::size_t>(missing->stage)].device)};
  }

  const OrderTable& table_;
  std::vector<std::size_t> next_;  ///< by device
  std::vector<int> done_;          ///< by turn: its end
};

void check_places(const OrderTable& table, const std::string& source) {
  for (std::size_t d = 0; d < table.stages.size(); ++d) {
    const int line = static_cast<int>(d) + 1;
    if (table.stages[d].size() != table.stages[0].size())
      throw InputError(source, "",
                       "the device has " + std::to_string(table.stages[d].size()) + " stages, that of line 1 has " +
                           std::to_string(table.stages[0].size()) + "; all need as many",
                       line);
    if (table.stages[d][0] != static_cast<int>(d))
      throw InputError(source, "",
                       "the first stage of the device is " + std::to_string(table.stages[d][0]) + "; it must be " +
                           std::to_string(d) + ": the pipeline passes the devices in the order of their lines",
                       line);
  }
}

void check_complete(const OrderTable& table, const std::string& source) {
  const std::string_view phases = table.splits_backward ? "FIW" : "FB";
  for (std::size_t d = 0; d < table.devices.size(); ++d) {
    const int line = static_cast<int>(d) + 1;
    std::map<std::tuple<int, Phase, int>, int> times;  // by stage, phase, micro-batch
    for (const Slot& slot : table.devices[d]) {
      const Cell cell{table.stages[d][static_cast<std::size_t>(slot.chunk)], slot.phase, slot.micro_batch};
      if (phases.find(letters[static_cast<std::size_t>(slot.phase)]) == std::string_view::npos)
        throw InputError(source, text_of(cell),
                         "the order splits the backward pass into I and W elsewhere; it must do so everywhere", line);
      if (times[{cell.stage, cell.phase, cell.micro_batch}]++ > 0)
        throw InputError(source, text_of(cell), "stands there twice", line);
    }
    for (const int stage : table.stages[d])
      for (int m = 0; m < table.micro_batches; ++m)
        for (const char letter : phases) {
          const Cell cell{stage, static_cast<Phase>(letters.find(letter)), m};
          if (!times.contains({cell.stage, cell.phase, cell.micro_batch}))
            throw InputError(source, text_of(cell), "is missing", line);
        }
  }
}

}  // namespace

OrderTable tabulate(const Order& order, int num_devices, int micro_batches) {
  OrderTable table{.micro_batches = micro_batches,
                   .splits_backward = order.splits_backward,
                   .stages = {},
                   .devices = {},
                   .place_of = std::vector<OrderTable::Place>(static_cast<std::size_t>(num_devices * order.chunks))};
  for (int d = 0; d < num_devices; ++d) {
    table.stages.emplace_back();
    for (int c = 0; c < order.chunks; ++c) {
      table.stages.back().push_back(order.stage_of(d, c, num_devices));
      table.place_of[static_cast<std::size_t>(table.stages.back().back())] = {d, c};
    }
    table.devices.push_back(order.slots({num_devices, d, micro_batches}));
  }
  return table;
}

void validate(const OrderTable& table, const std::string& source) {
  check_places(table, source);
  check_complete(table, source);
  Walk walk(table);
  if (!walk.run()) throw InputError(source, "", "the order can't be run: " + walk.circle());
}

OrderTable parse_order_table(std::string_view text, const std::string& source) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::vector<std::vector<Cell>> lines;
  for_each_piece(text, '\n', [&](std::string_view line) {
    lines.push_back(parse_line(line, source, static_cast<int>(lines.size()) + 1));
  });
  OrderTable table = table_of(lines, source);
  validate(table, source);
  return table;
}

OrderTable read_order(const std::string& file) { return parse_order_table(read_text(file), file); }

std::string write_order(const OrderTable& table) {
  Walk walk(table);
  check(walk.run(), "an order that can't be run");
  std::string text;
  for (std::size_t d = 0; d < table.devices.size(); ++d) {
    int column = 0;
    for (std::size_t i = 0; i < table.devices[d].size(); ++i) {
      const Slot& slot = table.devices[d][i];
      for (; column < walk.starts[d][i]; ++column) text += ',';
      text += text_of({table.stages[d][static_cast<std::size_t>(slot.chunk)], slot.phase, slot.micro_batch});
    }
    text += '\n';
  }
  return text;
}

int walked_held(const std::vector<Slot>& slots) {
  const bool splits = std::ranges::any_of(slots, [](const Slot& s) { return s.phase == Phase::weight_gradient; });
  int live = 0, peak = 0;
  for (const Slot& slot : slots) {
    live += slot.phase == Phase::forward ? 1 : 0;
    peak = std::max(peak, live);
    live -= slot.phase == (splits ? Phase::weight_gradient : Phase::backward) ? 1 : 0;
  }
  return peak;
}

}  // namespace fusion
