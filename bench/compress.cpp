// fusion-bench compress: every codec on one tensor, against the plain read pass of the same run, and whether it pays on
// a link.
#include <cmath>
#include <iostream>
#include <memory>

#include "bench/bench.h"
#include "bench/compress_report.h"
#include "bench/tensors.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/compress/codec.h"
#include "core/report/table.h"

namespace fusion::bench {
namespace {

using namespace compress;

struct Options {
  std::vector<std::string> codecs{"all"};
  std::string elements = "16Mi", distribution = "gaussian", file, tensor, value = "fp16", target = "best";
  std::vector<std::string> links{"100 Mbps"};
  double keep = 0.01;
  int rank = 4, turns = 20;
  std::uint64_t seed = 1;
  bool feedback = false, cold = false, parts = false, json = false, csv = false, quiet = false;
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
  std::vector<CodecFigures> figures;
  Json rows = Json::array();
  for (const MethodRow* row : chosen_rows(o.codecs)) {
    if (!o.quiet) std::cerr << "measuring " << row->name << "\n";
    figures.push_back(measure_codec(*row, sample, options, o.cold, o.turns));
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
  print_table(figures, o.links);
}

void run_parts(const Sample& sample, const Options& o) {
  method_options(o);
  const double keeps[] = {0.001, o.keep, 0.1};
  const std::size_t n = sample.values.size();
  if (!o.quiet) std::cerr << "measuring selection, hard inputs and index formats\n";
  const PartFigures parts{measure_selection(sample.values, keeps, o.turns),
                          measure_hard_inputs(n, o.keep, std::min(o.turns, 5)),
                          measure_index_formats(n, o.keep, o.turns)};
  if (!o.json) {
    std::cout << summary(sample, o) << "\n";
    return print_parts(parts);
  }
  std::cout << to_json(sample, parts).dump(2) << "\n";
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
