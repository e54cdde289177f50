#include "core/plan/op_fence_line.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

/// Ops that keep the same tensor count it once when they are no further apart than this. Counting it once takes that a
/// part with one of them holds the other too, or else starts or ends between them; it is wrong, by counting too much,
/// for parts that lie between them altogether.
constexpr std::size_t near_units = 16;

constexpr double unlimited_relief = 1e6;

/// Builds a Line from contributions of units and of ranges of cuts.
class LineBuilder {
 public:
  LineBuilder(const PolicyInput& input, std::span<const Unit> units)
      : input_(input), units_(units), unit_of_(unit_of_ops(input.graph, units)) {
    for (auto* sums : {&line_.resident_bytes, &line_.kept_bytes, &line_.kept_at_start_bytes, &line_.forward_bytes,
                       &line_.backward_bytes, &line_.buffer_bytes})
      sums->assign(units.size() + 1, 0.0);
    line_.recompute = training().recompute;
  }

  Line build() && {
    add_times();
    add_parameters();
    add_kept();
    for (const Tensor& tensor : input_.graph.tensors) add_crossing(tensor);
    if (line_.recompute) add_second_forward();
    for (auto* by_cut : {&line_.forward_bytes, &line_.backward_bytes, &line_.buffer_bytes, &line_.kept_at_start_bytes})
      accumulate(*by_cut);
    accumulate(line_.resident_bytes);
    accumulate(line_.kept_bytes);
    return std::move(line_);
  }

 private:
  const Training& training() const { return input_.request.training; }
  std::size_t unit_of(OpId op) const { return unit_of_[op.index()]; }
  static double bytes(Bytes b) { return static_cast<double>(b.value); }

  /// What a unit has stands at the cut after it until the sums are taken.
  static void add_to_unit(std::vector<double>& sums, std::size_t unit, double amount) { sums[unit + 1] += amount; }
  /// What lies on cuts [first, last] stands as its rise and fall.
  static void add_to_cuts(std::vector<double>& by_cut, std::size_t first, std::size_t last, double amount) {
    by_cut[first] += amount;
    if (last + 1 < by_cut.size()) by_cut[last + 1] -= amount;
  }
  static void accumulate(std::vector<double>& values) {
    for (std::size_t i = 1; i < values.size(); ++i) values[i] += values[i - 1];
  }

  void add_times() {
    const DType dtype = compute_dtype(training().precision);
    for (const GpuType& gpu : input_.platform.gpus) {
      std::vector<double> sums(units_.size() + 1);
      for (std::size_t u = 0; u < units_.size(); ++u)
        for (const OpId op : units_[u].ops) {
          const OpTimes times = op_times(input_.graph, input_.costs, op, gpu, dtype);
          const Seconds again = training().recompute ? times.forward : Seconds(0);
          add_to_unit(sums, u, (times.total() + again).value);
        }
      accumulate(sums);
      line_.time_s.push_back(std::move(sums));
    }
  }

  void add_parameters() {
    const auto each = static_cast<double>(bytes_per_parameter(training()));
    for (const Parameter& parameter : input_.graph.parameters) {
      std::size_t last = units_.size();
      for (const OpId user : parameter.users) {
        if (unit_of(user) != last)
          add_to_unit(line_.resident_bytes, unit_of(user), each * static_cast<double>(num_elements(parameter.shape)));
        last = unit_of(user);
      }
    }
  }

  void add_kept() {
    std::vector<std::vector<std::size_t>> keepers(input_.graph.tensors.size());
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const Kept kept = kept_for_backward(input_.graph, input_.costs, units_[u].ops);
      add_to_unit(line_.kept_bytes, u, bytes(kept.extra));
      for (const TensorId tensor : kept.tensors) keepers[tensor.index()].push_back(u);
    }
    for (std::size_t t = 0; t < keepers.size(); ++t) add_keepers(keepers[t], bytes(bytes_of(input_.graph.tensors[t])));
  }

  /// With recompute what is kept lives for one micro-batch only, and is counted with each keeper.
  void add_keepers(const std::vector<std::size_t>& units, double size) {
    for (std::size_t k = 0; k < units.size(); ++k)
      if (k > 0 && units[k] - units[k - 1] <= near_units && !line_.recompute)
        add_to_cuts(line_.kept_at_start_bytes, units[k - 1] + 1, units[k], size);
      else
        add_to_unit(line_.kept_bytes, units[k], size);
  }

  /// The wire size in both directions. Codecs that adapt are left to the search: it sees dense bytes and may shrink
  /// them.
  void add_crossing(const Tensor& tensor) {
    std::size_t first = unit_of(tensor.producer), last = first;
    for (const OpId consumer : tensor.consumers) last = std::max(last, unit_of(consumer));
    if (first == last) return;
    const Codec codec = codec_everywhere(input_.compression);
    const double wire = bytes(wire_bytes(tensor, codec)), dense = bytes(bytes_of(tensor));
    add_to_cuts(line_.forward_bytes, first + 1, last, wire);
    if (tensor.needs_gradient) add_to_cuts(line_.backward_bytes, first + 1, last, wire);
    add_to_cuts(line_.buffer_bytes, first + 1, last, 2 * dense * (tensor.needs_gradient ? 2 : 1));
    if (line_.recompute) add_to_cuts(line_.kept_at_start_bytes, first + 1, last, dense);
  }

  /// A second forward starts from the inputs and labels too, which are held for every micro-batch in flight.
  void add_second_forward() {
    for (const Op& op : input_.graph.ops)
      if (op.inputs.empty())
        add_to_unit(line_.resident_bytes, unit_of(input_.graph.tensor(op.outputs.front()).producer),
                    input_.request.micro_batches * bytes(bytes_of(input_.graph, op.outputs)));
  }

  const PolicyInput& input_;
  std::span<const Unit> units_;
  std::vector<std::size_t> unit_of_;
  Line line_;
};

/// The sums of a fine line at some of its cuts.
Line line_at(const Line& fine, const std::vector<std::size_t>& cuts) {
  const auto pick = [&](const std::vector<double>& values) {
    std::vector<double> picked;
    picked.reserve(cuts.size());
    for (const std::size_t cut : cuts) picked.push_back(values[cut]);
    return picked;
  };
  Line line;
  for (const auto& time : fine.time_s) line.time_s.push_back(pick(time));
  line.resident_bytes = pick(fine.resident_bytes);
  line.kept_bytes = pick(fine.kept_bytes);
  line.kept_at_start_bytes = pick(fine.kept_at_start_bytes);
  line.forward_bytes = pick(fine.forward_bytes);
  line.backward_bytes = pick(fine.backward_bytes);
  line.buffer_bytes = pick(fine.buffer_bytes);
  line.recompute = fine.recompute;
  return line;
}

}  // namespace

std::vector<std::size_t> unit_of_ops(const Graph& graph, std::span<const Unit> units) {
  std::vector<std::size_t> unit_of(graph.ops.size());
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const OpId op : units[u].ops) unit_of[op.index()] = u;
  return unit_of;
}

Line lay_out(const PolicyInput& input, std::span<const Unit> units) { return LineBuilder(input, units).build(); }

Codec codec_everywhere(const Compression& compression) {
  const CompressionRow& row = *compression.row;
  if (row.reach != Reach::everywhere || (row.takes_ratio && compression.ratio <= 1)) return {};
  return {row.codec, row.takes_ratio ? compression.ratio : 1};
}

Bytes least_wire_bytes(const Tensor& tensor, const Compression& compression) {
  const Bytes dense = bytes_of(tensor);
  if (tensor.dtype == DType::int64) return dense;
  if (compression.row->reach == Reach::everywhere) return wire_bytes(tensor, codec_everywhere(compression));
  const double ratio = compression.row->reach == Reach::by_link ? compression.ratio : static_cast<double>(dense.value);
  const Bytes limit(static_cast<std::int64_t>(static_cast<double>(dense.value) / ratio));
  return std::min(dense, wire_bytes(tensor, topk_within(tensor, limit)));
}

CutPricing pricing_of(const Compression& compression) {
  switch (compression.row->reach) {
    case Reach::everywhere:
      return {1};
    case Reach::by_link:
      return {compression.ratio};
    case Reach::by_need:
      return {unlimited_relief};
  }
  check(false, "a compression row without a reach");
  return {};
}

CoarseLine coarsened(const Line& fine, std::size_t max_units) {
  const std::size_t num_units = fine.num_units();
  CoarseLine coarse;
  if (num_units <= max_units) {
    for (std::size_t i = 0; i <= num_units; ++i) coarse.cuts.push_back(i);
    coarse.line = fine;
    return coarse;
  }
  // One cut for each equal share of the work, where the least crosses.
  const std::vector<double>& work = fine.time_s.front();
  const auto crossing = [&](std::size_t cut) { return fine.forward_bytes[cut] + fine.backward_bytes[cut]; };
  coarse.cuts.push_back(0);
  std::size_t cut = 1;
  for (std::size_t share = 1; share < max_units; ++share) {
    const double end = work.back() * (static_cast<double>(share) + 0.5) / static_cast<double>(max_units);
    std::size_t best = num_units;
    for (; cut < num_units && work[cut] <= end; ++cut)
      if (best == num_units || crossing(cut) < crossing(best)) best = cut;
    if (best < num_units) coarse.cuts.push_back(best);
  }
  coarse.cuts.push_back(num_units);
  coarse.line = line_at(fine, coarse.cuts);
  return coarse;
}

}  // namespace fusion
