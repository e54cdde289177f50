// How good a checkpoint is on data it was not trained on: the stages of a plan one after another in this process.
#pragma once

#include <optional>

#include "core/plan/codec_course.h"
#include "exec/backend.h"
#include "exec/checkpoint.h"
#include "exec/data.h"

namespace fusion::exec {

struct EvaluateOptions {
  std::int64_t micro_batches = 1;  ///< from the first of the data's order by seed 0, whatever the run's seed
  TopkOver over = TopkOver::tensor;
  bool coded = false;  ///< activations cross the cuts as the plan codes them, without error feedback
  BackendOptions backend = {};
};

struct Evaluation {
  std::int64_t step = 0, samples = 0;
  double loss = 0;                 ///< mean over the micro-batches
  std::optional<double> accuracy;  ///< share of labels that have the largest logit; of logits [..., classes] only
};

/// Dropout drops nothing; a batch norm takes the statistics of the micro-batch, as in training. Throws InputError for a
/// checkpoint of another network, or one that lacks a parameter.
Evaluation evaluate(const Graph&, const Schedule&, const Checkpoint&, const BackendRow&, const DataSet&,
                    const EvaluateOptions&);

}  // namespace fusion::exec
