// The decision: which device runs which ops, in which pipeline order, and what each cut tensor travels as.
// schedule.json is this struct, field by field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graph/models.h"
#include "core/plan/codec.h"
#include "core/plan/estimator.h"

namespace fusion {

/// Far beyond what any pipeline can use; it keeps the number of steps within reason.
constexpr int max_micro_batches = 65535;

/// A convex part of the OP-DAG on one device. Stages are in pipeline order: every cut tensor goes to a later stage.
struct Stage {
  DeviceId device;
  int replica = 0;        ///< which data-parallel copy of the network; the stages of one stand together, by number
  std::vector<OpId> ops;  ///< ascending
  bool operator==(const Stage&) const = default;
};

/// A tensor that crosses from the stage that makes it to one that reads it. The gradient goes the other way, if it has
/// one.
struct CutEdge {
  TensorId tensor;
  StageId from, to;
  Codec activation, gradient;
  bool operator==(const CutEdge&) const = default;
};

struct Schedule {
  // What was asked for: enough to load the same graph and platform again.
  std::string model;  ///< as given to load_model
  ModelOptions model_options;
  std::string platform;              ///< as given to load_platform
  std::size_t platform_devices = 0;  ///< --devices; 0: all
  std::string platform_bandwidth;    ///< --bandwidth; empty: as the platform says
  std::string policy, order, compress;
  int micro_batches = 8;  ///< per iteration; each replica takes micro_batches / replicas of them
  int replicas = 1;
  std::string collective = "auto";  ///< how replicas, and stages that share parameters, add up their gradients
  Training training;
  std::uint64_t seed = 0;

  // What was decided.
  std::vector<Stage> stages;
  std::vector<CutEdge> edges;  ///< by (from, to, tensor)
  Seconds predicted_iteration{};
  bool operator==(const Schedule&) const = default;
};

/// Devices that run a stage; some orders give a device several.
std::size_t devices_used(const Schedule&);

/// Stages [first, last) of one replica: a pipeline.
struct StageRange {
  std::size_t first, last;
  std::size_t size() const { return last - first; }
  bool operator==(const StageRange&) const = default;
};
std::vector<StageRange> pipelines(const std::vector<Stage>&);

inline int micro_batches_of_each(const Schedule& schedule) { return schedule.micro_batches / schedule.replicas; }

/// Throws InputError(file, key, …) for micro-batches that the replicas can't share evenly.
void require_even_shares(const Schedule&, const std::string& file);

/// The cut tensors of a placement, codecs `none`, sorted. Two stages that read one tensor get an edge each. Ops that no
/// stage has cut nothing, so a part of a placement has its edges too.
std::vector<CutEdge> cut_edges(const Graph&, const std::vector<Stage>&);

/// Throws InputError(file, key, …) unless the stages of each replica cover every op once, in convex parts and pipeline
/// order, on devices that exist and differ, or return where the pipeline order has them return, with exactly the cut
/// edges of the placement.
void validate(const Schedule&, const Graph&, const struct Platform&, const std::string& file);

/// Op ranges are written "first..last", in the model's order. The inverse is load_plan (plan.h).
std::string write_schedule(const Schedule&, const Graph&, const Platform&);

}  // namespace fusion
