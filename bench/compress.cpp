// fusion-bench compress: every codec on one tensor, against the plain read pass of the same run, and whether it pays on
// a link.
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "bench/bench.h"
#include "bench/compress_topk.h"
#include "bench/tensors.h"
#include "bench/timing.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/compress/codec.h"
#include "core/report/table.h"

namespace fusion::bench {
namespace {

using namespace compress;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> codecs{"all"};
  std::string elements = "16Mi", distribution = "gaussian", file, tensor, value = "fp16", target = "best";
  std::vector<std::string> links{"100 Mbps"};
  double keep = 0.01;
  int rank = 4, turns = 20;
  std::uint64_t seed = 1;
  bool feedback = false, cold = false, parts = false, json = false, csv = false, quiet = false;
};

struct Figures {
  const MethodRow* row = nullptr;
  double encode_s = 0, decode_s = 0, read_s = 0;
  std::size_t bytes = 0, dense_bytes = 0, kept = 0;
  std::optional<double> entropy_ratio;
  double relative_error = 0;  ///< over the elements that the receiver sees
  double contraction = 0, bound = 0;

  double codec_s() const { return encode_s + decode_s; }
  /// On a link of rate b, dense takes 8 D / b and coded codec_s + 8 M / b: equal at this b, and coding pays below.
  double break_even_bits_per_s() const {
    return bytes >= dense_bytes ? 0 : 8 * static_cast<double>(dense_bytes - bytes) / codec_s();
  }
};

/// "16M" is 16e6, "16Mi" 2^24; a bare number is itself.
std::int64_t parse_elements(const std::string& text) {
  struct Suffix {
    std::string_view text;
    double factor;
  };
  static constexpr Suffix suffixes[] = {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"k", 1e3},
                                        {"M", 1e6},     {"G", 1e9},     {"", 1}};
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string_view rest = std::string_view(text).substr(used);
  for (const Suffix& s : suffixes)
    if (used > 0 && rest == s.text && value * s.factor >= 1 && value * s.factor <= 0x1p33)
      return std::llround(value * s.factor);
  throw InputError("", "--elements", '"' + text + "\" is no number of elements from 1 to 8Gi; for example 16Mi or 1e6");
}

template <class Row>
const Row& named(std::span<const Row> table, std::string_view name, std::string_view key) {
  std::vector<std::string_view> names;
  for (const Row& row : table) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw InputError("", key, unknown_name(name, names));
}

struct ValueRow {
  std::string_view name;
  ValueFormat format;
};
constexpr ValueRow value_rows[] = {{"fp32", ValueFormat::fp32},
                                   {"fp16", ValueFormat::fp16},
                                   {"bf16", ValueFormat::bf16},
                                   {"int8", ValueFormat::int8_log},
                                   {"int4", ValueFormat::int4_log}};

Target target_of(const std::string& name) {
  if (name == "best") return best_target();
  std::vector<std::string_view> names{"best"};
  for (const Target t : supported_targets()) {
    if (name_of(t) == name) return t;
    names.push_back(name_of(t));
  }
  throw InputError("", "--target", unknown_name(name, names));
}

MethodOptions method_options(const Options& o) {
  if (!(o.keep > 0 && o.keep <= 1)) throw InputError("", "--keep", significant(o.keep) + " is no fraction in (0, 1]");
  if (o.rank < 1) throw InputError("", "--rank", std::to_string(o.rank) + " is no rank of 1 or more");
  MethodOptions m;
  m.keep = o.keep;
  m.rank = o.rank;
  m.seed = o.seed;
  m.feedback = o.feedback;
  m.target = target_of(o.target);
  m.value = named<ValueRow>(value_rows, o.value, "--value").format;
  return m;
}

/// The magnitude that a share `keep` of the tensor reaches, so that `threshold` sends as much as top-k.
float matching_threshold(std::span<const float> x, double keep, Target target) {
  TopkWorkspace ws;
  Selection s;
  top_k<float>(x, static_cast<std::uint64_t>(std::ceil(keep * static_cast<double>(x.size()))), s, ws,
               {.target = target});
  if (s.not_finite) throw NotFinite("--file", *s.not_finite);
  return s.threshold > 0 ? s.threshold : std::numeric_limits<float>::min();
}

void measure_errors(std::span<const float> x, std::span<const float> seen, Figures& f) {
  double lost = 0, all = 0, kept_lost = 0, kept_all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]), error = value - static_cast<double>(seen[i]);
    all += value * value;
    lost += error * error;
    if (seen[i] == 0) continue;
    ++f.kept;
    kept_all += value * value;
    kept_lost += error * error;
  }
  f.contraction = all > 0 ? lost / all : 0;
  f.relative_error = kept_all > 0 ? std::sqrt(kept_lost / kept_all) : 0;
}

/// Bits of the index section per kept element over the entropy, where the codec's payload is a sparse message.
std::optional<double> entropy_ratio(const MethodRow& row, std::span<const std::byte> bytes, std::size_t elements) {
  constexpr std::size_t envelope = 32;
  if (row.method != Method::topk && row.method != Method::threshold && row.method != Method::dct_topk) return {};
  Message m;
  read_message(bytes.subspan(envelope), m);
  if (m.dense() || m.index.empty() || m.index.size() == elements) return {};
  const auto k = static_cast<double>(m.index.size());
  return 8 * static_cast<double>(m.index_section) / k / entropy_bits_per_index(static_cast<double>(elements), k);
}

Figures measure(const MethodRow& row, const Sample& sample, const MethodOptions& options, const Options& o) {
  Figures f;
  f.row = &row;
  CodecWorkspace ws;
  TensorState sender, receiver;
  std::vector<std::byte> bytes;
  Floats out(sample.values.size());
  volatile float sink = 0;
  const Kernels& kernel = kernels(options.target);
  const auto t = shortest({[&] { sink = kernel.read_pass(sample.values.data(), sample.values.size()); },
                           [&] {
                             if (o.cold) sender.hint = 0;
                             encode(row.method, sample.name, sample.values, sample.shape, options, sender, ws, bytes);
                           },
                           [&] { decode(row.method, sample.name, bytes, sample.shape, receiver, ws, out); }},
                          o.turns, 4);
  f.read_s = t[0];
  f.encode_s = t[1];
  f.decode_s = t[2];
  // Errors and sizes of one tensor without history.
  sender = receiver = {};
  encode(row.method, sample.name, sample.values, sample.shape, options, sender, ws, bytes);
  decode(row.method, sample.name, bytes, sample.shape, receiver, ws, out);
  if (row.reference) {  // its first message is whole: what counts is the next
    encode(row.method, sample.name, sample.values, sample.shape, options, sender, ws, bytes);
    decode(row.method, sample.name, bytes, sample.shape, receiver, ws, out);
  }
  f.bytes = bytes.size();
  f.dense_bytes = sample.values.size() * sizeof(float);
  f.bound = row.constant(sample.shape, options);
  measure_errors(sample.values, out, f);
  f.entropy_ratio = entropy_ratio(row, bytes, sample.values.size());
  return f;
}

std::string verdict(const Figures& f, BytesPerSecond link) {
  return 8 * link.value < f.break_even_bits_per_s() ? "compress" : "don't compress here";
}

double bytes_per_kept(const Figures& f) {
  return f.kept == 0 ? 0 : static_cast<double>(f.bytes) / static_cast<double>(f.kept);
}

Json to_json(const Figures& f, const std::vector<std::string>& links) {
  Json j = {{"codec", f.row->name},
            {"ns", std::llround(1e9 * f.encode_s)},
            {"decode_ns", std::llround(1e9 * f.decode_s)},
            {"read_ns", std::llround(1e9 * f.read_s)},
            {"read_fraction", f.read_s / f.encode_s},
            {"decode_read_fraction", f.read_s / f.decode_s},
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

std::string milliseconds(double time_s) { return significant(1e3 * time_s); }

/// 0.0003 as "3.0e-4", since tables of significant digits grow wide there.
std::string small(double value) {
  if (value == 0 || value >= 1e-3) return significant(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

void print_table(const std::vector<Figures>& figures, const Options& o) {
  std::vector<Column> columns{{"codec"}};
  for (const char* title : {"encode ms", "decode ms", "of read", "bytes", "smaller", "B/kept", "entropy", "error",
                            "lost", "bound", "break-even"})
    columns.push_back({title, Align::right});
  for (const std::string& link : o.links) columns.push_back({"at " + link});
  Table table(columns);
  for (const Figures& f : figures) {
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
        f.row->guarantee == Guarantee::bounded ? "-" : small(f.bound),
        f.break_even_bits_per_s() > 0 ? format(BytesPerSecond(f.break_even_bits_per_s() / 8)) : "never"};
    bool pays = false;
    for (const std::string& link : o.links) {
      cells.push_back(verdict(f, parse_bandwidth(link)));
      pays = pays || cells.back() == "compress";
    }
    table.add(cells, pays ? Emphasis::none : Emphasis::faint);
  }
  std::cout << table.render(isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr);
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

std::vector<const MethodRow*> chosen_rows(const std::vector<std::string>& names) {
  std::vector<const MethodRow*> rows;
  for (const std::string& name : names)
    if (name == "all") {
      for (const MethodRow& row : method_table()) rows.push_back(&row);
    } else {
      rows.push_back(&named(method_table(), name, "--codec"));
    }
  return rows;
}

std::string summary(const Sample& sample, const Options& o) {
  return sample.name + " " + to_string(sample.shape) + ", keep " + significant(o.keep) + ", values " + o.value + ", " +
         std::string(name_of(target_of(o.target))) + ", one thread";
}

void run_codecs(const Sample& sample, const Options& o) {
  MethodOptions options = method_options(o);
  options.threshold = matching_threshold(sample.values, o.keep, options.target);
  std::vector<Figures> figures;
  Json rows = Json::array();
  for (const MethodRow* row : chosen_rows(o.codecs)) {
    if (!o.quiet) std::cerr << "measuring " << row->name << "\n";
    figures.push_back(measure(*row, sample, options, o));
    rows.push_back(to_json(figures.back(), o.links));
  }
  if (o.csv) return print_csv(rows);
  if (o.json) {
    const Json whole = {{"tensor", sample.name},
                        {"shape", sample.shape},
                        {"keep", o.keep},
                        {"value", o.value},
                        {"target", name_of(options.target)},
                        {"feedback", o.feedback},
                        {"cold", o.cold},
                        {"seed", o.seed},
                        {"codecs", rows}};
    std::cout << whole.dump(2) << "\n";
    return;
  }
  std::cout << summary(sample, o) << "; a read pass takes " << milliseconds(figures.front().read_s) << " ms\n";
  print_table(figures, o);
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

void print_parts(const Sample& sample, const Options& o, const std::vector<SelectionFigures>& selection,
                 const std::vector<HardFigures>& hard, const std::vector<IndexFigures>& index) {
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  std::cout << summary(sample, o) << "\n";
  Table top({{"exact top-k"},
             {"keep", Align::right},
             {"read ms", Align::right},
             {"cold, of read", Align::right},
             {"warm, of read", Align::right},
             {"feedback, of e += g", Align::right},
             {"over nth_element", Align::right}});
  for (const auto& f : selection)
    top.add({f.target, significant(f.keep), milliseconds(f.read_s), percent(f.read_s / f.cold_s),
             percent(f.read_s / f.warm_s), significant(f.feedback_s / f.accumulate_s) + "x",
             significant(f.nth_element_s / f.cold_s) + "x"});
  Table hard_table({{"hard input"}, {"of the Gaussian's time", Align::right}});
  for (const auto& f : hard) hard_table.add({f.input, significant(f.cold_s / f.gaussian_s) + "x"});
  Table index_table({{"index format"},
                     {"write M/s", Align::right},
                     {"read M/s", Align::right},
                     {"bits", Align::right},
                     {"of entropy", Align::right}});
  for (const auto& f : index)
    index_table.add({f.format, significant(f.write_per_s / 1e6), significant(f.read_per_s / 1e6),
                     significant(f.bits_per_index, 4), significant(f.bits_per_index / f.entropy_bits, 4)});
  std::cout << top.render(colour) << "\n" << hard_table.render(colour) << "\n" << index_table.render(colour);
}

void run_parts(const Sample& sample, const Options& o) {
  method_options(o);
  const double keeps[] = {0.001, o.keep, 0.1};
  const std::size_t n = sample.values.size();
  if (!o.quiet) std::cerr << "measuring selection, hard inputs and index formats\n";
  const auto selection = measure_selection(sample.values, keeps, o.turns);
  const auto hard = measure_hard_inputs(n, o.keep, std::min(o.turns, 5));
  const auto index = measure_index_formats(n, o.keep, o.turns);
  if (!o.json) return print_parts(sample, o, selection, hard, index);
  Json whole = {{"tensor", sample.name}, {"shape", sample.shape}};
  for (const auto& f : selection) whole["selection"].push_back(json_of(f));
  for (const auto& f : hard)
    whole["hard_inputs"].push_back({{"input", f.input}, {"over_gaussian", f.cold_s / f.gaussian_s}});
  for (const auto& f : index)
    whole["index_formats"].push_back({{"format", f.format},
                                      {"write_per_s", f.write_per_s},
                                      {"read_per_s", f.read_per_s},
                                      {"bits_per_index", f.bits_per_index},
                                      {"entropy_ratio", f.bits_per_index / f.entropy_bits}});
  std::cout << whole.dump(2) << "\n";
}

void run(const Options& o) {
  for (const std::string& link : o.links) {
    try {
      parse_bandwidth(link);
    } catch (const std::invalid_argument& error) {
      throw InputError("", "--link", error.what());
    }
  }
  chosen_rows(o.codecs);
  method_options(o);
  const Sample sample =
      o.file.empty() ? make_sample(o.distribution, parse_elements(o.elements), o.seed) : load_sample(o.file, o.tensor);
  if (sample.values.empty()) throw InputError(o.file, "", "the tensor is empty");
  if (o.parts) return run_parts(sample, o);
  run_codecs(sample, o);
}

}  // namespace

std::function<void()> add_compress(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  app.add_option("--codec", o->codecs, "codecs to measure: names, or all")->delimiter(',');
  app.add_option("--elements", o->elements, "size of the tensor: 16Mi is 2^24, 16M is 16e6")->capture_default_str();
  app.add_option("--distribution", o->distribution, "gaussian, laplace, rows, relu-sparse")->capture_default_str();
  app.add_option("--file", o->file, "a tensor of a .npy or .safetensors file instead");
  app.add_option("--tensor", o->tensor, "which tensor of a .safetensors file; the largest by default");
  app.add_option("--keep", o->keep, "kept fraction of the sparse codecs")->capture_default_str();
  app.add_option("--value", o->value, "values of the sparse codecs: fp32, fp16, bf16, int8, int4 (logarithmic)")
      ->capture_default_str();
  app.add_option("--rank", o->rank, "rank of powersgd")->capture_default_str();
  app.add_option("--link", o->links, "bandwidths to judge by, e.g. \"8 Mbps\",\"10 Gbps\"")->delimiter(',');
  app.add_option("--target", o->target, "instruction set: best, scalar, avx2, avx512, neon")->capture_default_str();
  app.add_option("--turns", o->turns, "measurements, of which the shortest counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", o->seed, "seed of tensors and codecs")->capture_default_str();
  app.add_flag("--feedback", o->feedback, "keep error feedback");
  app.add_flag("--cold", o->cold, "estimate top-k's threshold anew each time");
  app.add_flag("--parts", o->parts, "selection, hard inputs and index formats by themselves");
  auto* json = app.add_flag("--json", o->json, "JSON on standard output");
  app.add_flag("--csv", o->csv, "CSV on standard output")->excludes(json);
  app.add_flag("--quiet", o->quiet, "no progress on standard error");
  app.footer(
      "Examples:\n"
      "  fusion-bench compress --link \"8 Mbps\",\"1 Gbps\",\"10 Gbps\"\n"
      "  fusion-bench compress --codec topk --distribution rows --value int8\n"
      "  fusion-bench compress --file gradient.npy --keep 0.001 --json\n"
      "  fusion-bench compress --parts --elements 1Mi");
  return [o] { run(*o); };
}

}  // namespace fusion::bench
