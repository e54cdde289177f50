// Community detection by the Louvain method (Blondel, Guillaume, Lambiotte, Lefebvre 2008, "Fast unfolding of
// communities in large networks"), with the resolution parameter of Reichardt and Bornholdt (2006).
//
// It maximises the modularity
//
//   Q = sum over communities c of  in_c / W - gamma (tot_c / W)^2
//
// of the symmetrised weights A_ij = w_ij + w_ji: W the sum of all A, in_c the sum inside c, tot_c that of the rows of
// c. Nodes move one by one to the neighbouring community that gains most, until none gains; communities then become
// nodes and it starts again. A low gamma gives few large communities, a high one many small ones.
//
// Dense: O(n^2) per sweep over the nodes. Deterministic: nodes in index order, ties go to the lowest index.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/plan/square_matrix.h"

namespace fusion {

/// The community of each node, numbered in the order of their first members. Weights are finite and not negative; they
/// need not be symmetric. Weights on the diagonal tie a node to itself, which matters where a node stands for a group.
std::vector<std::size_t> louvain(const SquareMatrix& weights, double resolution);

/// Q of a partition. Zero for weights that are all zero.
double modularity(const SquareMatrix& weights, std::span<const std::size_t> community, double resolution);

/// Members of each community, ascending.
std::vector<std::vector<std::size_t>> members_of(std::span<const std::size_t> community);

}  // namespace fusion
