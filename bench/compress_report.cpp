#include "bench/compress_report.h"

#include <unistd.h>

#include <cmath>
#include <iostream>

#include "core/report/table.h"

namespace fusion::bench {
namespace {

bool has_colours() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

/// 0.0003 as "3.0e-4", since tables of significant digits grow wide there.
std::string small(double value) {
  if (value == 0 || value >= 1e-3) return significant(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

Json json_of(const SelectionFigures& f) {
  return {{"target", f.target},
          {"keep", f.keep},
          {"read_s", f.read_s},
          {"cold_read_fraction", f.read_s / f.cold_s},
          {"warm_read_fraction", f.read_s / f.warm_s},
          {"feedback_over_accumulate", f.feedback_s / f.accumulate_s},
          {"nth_element_over_cold", f.nth_element_s / f.cold_s}};
}

}  // namespace

std::string milliseconds(double time_s) { return significant(1e3 * time_s); }

Json to_json(const CodecFigures& f, std::span<const std::string> links) {
  Json j = {{"codec", f.row->name},
            {"ns", std::llround(1e9 * f.encode_s)},
            {"decode_ns", std::llround(1e9 * f.decode_s)},
            {"read_ns", std::llround(1e9 * f.read_s)},
            {"read_fraction", f.read_s / f.encode_s},
            {"decode_read_fraction", f.read_s / f.decode_s},
            {"encode_passes", f.encode_s / f.read_s},
            {"decode_passes", f.decode_s / f.read_s},
            {"bytes", f.bytes},
            {"dense_bytes", f.dense_bytes},
            {"kept", f.kept},
            {"bytes_per_kept", bytes_per_kept(f)},
            {"entropy_ratio", f.entropy_ratio ? Json(*f.entropy_ratio) : Json(nullptr)},
            {"contraction", f.contraction},
            {"contraction_bound", f.bound},
            {"relative_error", f.relative_error},
            {"break_even_bits_per_s", f.break_even_bits_per_s()}};
  j["verdict"] = verdict(f, parse_bandwidth(links.front()));
  for (const std::string& link : links)
    j["links"].push_back({{"link", link}, {"verdict", verdict(f, parse_bandwidth(link))}});
  return j;
}

void print_table(std::span<const CodecFigures> figures, std::span<const std::string> links) {
  std::vector<Column> columns{{"codec"}};
  for (const char* title : {"encode ms", "decode ms", "of read", "bytes", "smaller", "B/kept", "entropy", "error",
                            "lost", "bound", "break-even"})
    columns.push_back({title, Align::right});
  for (const std::string& link : links) columns.push_back({"at " + link});
  Table table(columns);
  for (const CodecFigures& f : figures) {
    std::vector<std::string> cells{
        std::string(f.row->name),
        milliseconds(f.encode_s),
        milliseconds(f.decode_s),
        percent(f.read_s / f.encode_s),
        format(Bytes(static_cast<std::int64_t>(f.bytes))),
        significant(static_cast<double>(f.dense_bytes) / static_cast<double>(f.bytes)) + "x",
        significant(bytes_per_kept(f)),
        f.entropy_ratio ? significant(*f.entropy_ratio, 4) : "-",
        small(f.relative_error),
        small(f.contraction),
        f.row->guarantee == compress::Guarantee::bounded ? "-" : small(f.bound),
        f.break_even_bits_per_s() > 0 ? format(BytesPerSecond(f.break_even_bits_per_s() / 8)) : "never"};
    bool pays = false;
    for (const std::string& link : links) {
      cells.push_back(verdict(f, parse_bandwidth(link)));
      pays = pays || cells.back() == "compress";
    }
    table.add(cells, pays ? Emphasis::none : Emphasis::faint);
  }
  std::cout << table.render(has_colours());
}

void print_csv(const Json& rows) {
  for (bool head = true; const Json& row : rows) {
    std::string line, titles;
    for (const auto& [key, value] : row.items()) {
      if (key == "links") continue;
      titles += (titles.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + (value.is_null()     ? ""
                                           : value.is_string() ? value.get<std::string>()
                                                               : value.dump());
    }
    if (std::exchange(head, false)) std::cout << titles << "\n";
    std::cout << line << "\n";
  }
}

Json to_json(const Sample& sample, const PartFigures& parts) {
  Json whole = {{"tensor", sample.name}, {"shape", sample.shape}};
  for (const auto& f : parts.selection) whole["selection"].push_back(json_of(f));
  for (const auto& f : parts.hard)
    whole["hard_inputs"].push_back({{"input", f.input}, {"over_gaussian", f.cold_s / f.gaussian_s}});
  for (const auto& f : parts.index)
    whole["index_formats"].push_back({{"format", f.format},
                                      {"write_per_s", f.write_per_s},
                                      {"read_per_s", f.read_per_s},
                                      {"bits_per_index", f.bits_per_index},
                                      {"entropy_ratio", f.bits_per_index / f.entropy_bits}});
  return whole;
}

void print_parts(const PartFigures& parts) {
  const bool colour = has_colours();
  Table top({{"exact top-k"},
             {"keep", Align::right},
             {"read ms", Align::right},
             {"cold, of read", Align::right},
             {"warm, of read", Align::right},
             {"feedback, of e += g", Align::right},
             {"over nth_element", Align::right}});
  for (const auto& f : parts.selection)
    top.add({f.target, significant(f.keep), milliseconds(f.read_s), percent(f.read_s / f.cold_s),
             percent(f.read_s / f.warm_s), significant(f.feedback_s / f.accumulate_s) + "x",
             significant(f.nth_element_s / f.cold_s) + "x"});
  Table hard_table({{"hard input"}, {"of the Gaussian's time", Align::right}});
  for (const auto& f : parts.hard) hard_table.add({f.input, significant(f.cold_s / f.gaussian_s) + "x"});
  Table index_table({{"index format"},
                     {"write M/s", Align::right},
                     {"read M/s", Align::right},
                     {"bits", Align::right},
                     {"of entropy", Align::right}});
  for (const auto& f : parts.index)
    index_table.add({f.format, significant(f.write_per_s / 1e6), significant(f.read_per_s / 1e6),
                     significant(f.bits_per_index, 4), significant(f.bits_per_index / f.entropy_bits, 4)});
  std::cout << top.render(colour) << "\n" << hard_table.render(colour) << "\n" << index_table.render(colour);
}

}  // namespace fusion::bench
