// A square matrix of numbers by rows: bandwidths for clustering, costs for ordering. `at(i, j)` is from i to j.
#pragma once

#include <cstddef>
#include <vector>

namespace fusion {

struct SquareMatrix {
  std::size_t size = 0;
  std::vector<double> values;  ///< size x size

  explicit SquareMatrix(std::size_t n = 0) : size(n), values(n * n) {}
  double& at(std::size_t i, std::size_t j) { return values[i * size + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * size + j]; }
  bool operator==(const SquareMatrix&) const = default;
};

}  // namespace fusion
