#include "bench/compress_figures.h"

#include <cmath>

#include "bench/compress_topk.h"
#include "bench/timing.h"

namespace fusion::bench {
namespace {

using namespace compress;

constexpr double limit_s = 4;

void measure_errors(std::span<const float> x, std::span<const float> seen, CodecFigures& f) {
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
  if (row.method != Method::topk && row.method != Method::threshold && row.method != Method::dct_topk) return {};
  Message m;
  read_message(bytes.subspan(envelope_bytes), m);
  if (m.dense() || m.index.empty() || m.index.size() == elements) return {};
  const auto k = static_cast<double>(m.index.size());
  return 8 * static_cast<double>(m.index_section) / k / entropy_bits_per_index(static_cast<double>(elements), k);
}

}  // namespace

CodecFigures measure_codec(const MethodRow& row, const Sample& sample, const MethodOptions& options, bool cold,
                           int turns) {
  CodecFigures f;
  f.row = &row;
  CodecWorkspace ws;
  TensorState sender, receiver;
  std::vector<std::byte> bytes;
  Floats out(sample.values.size());
  volatile float sink = 0;
  const Kernels& kernel = kernels(options.target);
  const auto t = shortest({[&] { sink = kernel.read_pass(sample.values.data(), sample.values.size()); },
                           [&] {
                             if (cold) sender.hint = 0;
                             encode(row.method, sample.name, sample.values, sample.shape, options, sender, ws, bytes);
                           },
                           [&] { decode(row.method, sample.name, bytes, sample.shape, receiver, ws, out); }},
                          turns, limit_s);
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

std::string verdict(const CodecFigures& f, BytesPerSecond link) {
  return 8 * link.value < f.break_even_bits_per_s() ? "compress" : "don't compress here";
}

double bytes_per_kept(const CodecFigures& f) {
  return f.kept == 0 ? 0 : static_cast<double>(f.bytes) / static_cast<double>(f.kept);
}

}  // namespace fusion::bench
