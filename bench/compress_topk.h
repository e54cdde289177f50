// The inner parts by themselves: selection on every instruction set, on hard inputs, with error feedback, and the
// coding of indices; each against the plain read pass of the same run.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace fusion::bench {

struct SelectionFigures {
  std::string target;
  double keep = 0;
  double read_s = 0, cold_s = 0, warm_s = 0, accumulate_s = 0, feedback_s = 0, nth_element_s = 0;
};

/// `turns` measurements of each; nth_element once.
std::vector<SelectionFigures> measure_selection(std::span<const float> x, std::span<const double> keeps, int turns);

struct HardFigures {
  std::string input;
  double cold_s = 0, gaussian_s = 0;
};
/// Inputs that a sampled threshold gets wrong, of as many elements as x.
std::vector<HardFigures> measure_hard_inputs(std::size_t elements, double keep, int turns);

struct IndexFigures {
  std::string format;
  double write_per_s = 0, read_per_s = 0, bits_per_index = 0, entropy_bits = 0;
};
std::vector<IndexFigures> measure_index_formats(std::size_t elements, double keep, int turns);

/// log2 C(n, k) / k: the fewest bits per index for a support that may be any.
double entropy_bits_per_index(double elements, double kept);

}  // namespace fusion::bench
