// In which order a pipeline should visit places that are unequally far apart: the open path of least total cost.
//
// Costs are directed: `at(a, b)` is what a boundary costs when b comes right after a (activations a to b, gradients b
// to a), so a path and its reverse may differ.
//
//   up to 12 places   exact, dynamic programming over subsets (Held and Karp 1962; Bellman 1962), O(n^2 2^n)
//   beyond            nearest neighbour from several starts, then 2-opt (Croes 1958) and Or-opt (Or 1976) to a local
//                     optimum, O(n^2) per sweep, a bounded number of sweeps
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/plan/square_matrix.h"

namespace fusion {

inline constexpr std::size_t max_exact_path = 12;

/// Visits every place once. Deterministic; exact up to max_exact_path places.
std::vector<std::size_t> shortest_open_path(const SquareMatrix& costs);

/// The two parts it is made of, for tests and benchmarks.
std::vector<std::size_t> held_karp_path(const SquareMatrix& costs);
std::vector<std::size_t> local_search_path(const SquareMatrix& costs);

double path_cost(const SquareMatrix& costs, std::span<const std::size_t> path);

}  // namespace fusion
