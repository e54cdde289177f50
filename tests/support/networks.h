// Small networks of every shape that a cut meets, for tests of execution.
#pragma once

#include "core/graph/builder.h"
#include "core/graph/models_text.h"

namespace fusion::exec {

/// A chain: linear and ReLU.
Graph small_mlp(std::int64_t micro_batch = 4);
/// Branches and joins: one tensor read by three later ops, a residual around two layers, dropout, labels made first.
Graph branching_net();
/// Branches without dropout and labels first, so that any micro-batch size trains alike.
Graph plain_branching_net(std::int64_t micro_batch);
/// Convolutions, batch normalisation, a residual block, pooling.
Graph small_resnet();
/// Two blocks, tied embedding, dropout.
Graph tiny_gpt2(std::int64_t micro_batch = 2, double dropout = 0.1);
/// Tied embedding and output layer without attention, for the plain backend.
Graph tied_net(std::int64_t micro_batch = 2);

}  // namespace fusion::exec
