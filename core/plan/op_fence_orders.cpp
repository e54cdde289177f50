// Topological orders of the units by list scheduling: of the units whose inputs are done, a rule picks the next.
#include <algorithm>
#include <random>

#include "core/plan/op_fence_line.h"

namespace fusion {
namespace {

constexpr std::size_t few_units = 24;  ///< so few that random orders besides cost next to nothing
constexpr std::size_t num_random_orders = 9;

/// The units as a DAG, with the bytes that wait between them.
class UnitDag {
 public:
  UnitDag(const Graph& graph, std::span<const Unit> units) : size_(units.size()), reads_(size_), makes_(size_) {
    const std::vector<std::size_t> unit_of = unit_of_ops(graph, units);
    for (const Tensor& tensor : graph.tensors) {
      const std::size_t producer = unit_of[tensor.producer.index()];
      std::vector<std::size_t> readers;
      for (const OpId op : tensor.consumers)
        if (unit_of[op.index()] != producer) readers.push_back(unit_of[op.index()]);
      std::ranges::sort(readers);
      const auto repeated = std::ranges::unique(readers);
      readers.erase(repeated.begin(), repeated.end());
      if (readers.empty()) continue;
      for (const std::size_t reader : readers) reads_[reader].push_back(tensors_.size());
      makes_[producer].push_back(tensors_.size());
      tensors_.push_back({static_cast<double>(bytes_of(tensor).value), std::move(readers)});
    }
  }

  /// The order that results when `pick(ready, waiting readers of each tensor)` chooses from the ready units. `ready` is
  /// in the order in which they became so.
  template <class Pick>
  std::vector<std::size_t> order(Pick pick) const {
    std::vector<std::size_t> missing(size_), waiting, ready, order;
    for (const Cut& tensor : tensors_) waiting.push_back(tensor.readers.size());
    for (std::size_t u = size_; u-- > 0;)
      if ((missing[u] = reads_[u].size()) == 0) ready.push_back(u);
    while (!ready.empty()) {
      const auto chosen = ready.begin() + static_cast<std::ptrdiff_t>(pick(ready, waiting));
      const std::size_t unit = *chosen;
      ready.erase(chosen);
      order.push_back(unit);
      for (const std::size_t t : reads_[unit]) --waiting[t];
      for (const std::size_t t : makes_[unit])
        for (auto reader = tensors_[t].readers.rbegin(); reader != tensors_[t].readers.rend(); ++reader)
          if (--missing[*reader] == 0) ready.push_back(*reader);
    }
    return order;
  }

  /// Change of the bytes that wait, when `unit` is next.
  double growth(std::size_t unit, const std::vector<std::size_t>& waiting) const {
    double bytes = 0;
    for (const std::size_t t : makes_[unit]) bytes += tensors_[t].bytes;
    for (const std::size_t t : reads_[unit])
      if (waiting[t] == 1) bytes -= tensors_[t].bytes;
    return bytes;
  }

 private:
  struct Cut {
    double bytes;
    std::vector<std::size_t> readers;
  };
  std::size_t size_;
  std::vector<Cut> tensors_;
  std::vector<std::vector<std::size_t>> reads_, makes_;  ///< tensors by unit
};

}  // namespace

std::vector<std::vector<Unit>> orders_to_try(const Graph& graph) {
  const std::vector<Unit> own = linear_order(graph);
  const UnitDag dag(graph, own);
  std::vector<std::size_t> identity(own.size());
  for (std::size_t u = 0; u < own.size(); ++u) identity[u] = u;

  std::vector<std::vector<std::size_t>> tried = {identity};
  tried.push_back(dag.order([](const auto& ready, const auto&) { return ready.size() - 1; }));
  tried.push_back(dag.order([&](const auto& ready, const auto& waiting) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < ready.size(); ++i)
      if (dag.growth(ready[i], waiting) <= dag.growth(ready[best], waiting)) best = i;  // ties: the latest
    return best;
  }));
  if (own.size() <= few_units) {
    std::mt19937_64 random(own.size());
    for (std::size_t i = 0; i < num_random_orders; ++i)
      tried.push_back(dag.order([&](const auto& ready, const auto&) { return random() % ready.size(); }));
  }

  std::vector<std::vector<Unit>> orders;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const auto here = tried.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(tried.begin(), here, tried[i]) != here) continue;
    std::vector<Unit>& units = orders.emplace_back();
    for (const std::size_t u : tried[i]) units.push_back(own[u]);
  }
  return orders;
}

}  // namespace fusion
