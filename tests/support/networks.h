// Small networks of every shape that a cut meets, for tests of execution.
#pragma once

#include "core/graph/builder.h"

namespace fusion::exec {

/// A chain: linear and ReLU.
Graph small_mlp();
/// Branches and joins: one tensor read by three later ops, a residual around two layers, dropout, labels made first.
Graph branching_net();
/// Tied embedding and output layer without attention, for the plain backend.
Graph tied_net();

}  // namespace fusion::exec
