// Platforms and pipelines of any size, made in code: for benchmarks and tests.
#pragma once

#include <string>

#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

struct SyntheticPlatform {
  int num_devices = 4;
  int num_sites = 1;
  BytesPerSecond nic{1.25e9};
  BytesPerSecond uplink{1.25e8};
  Seconds nic_latency{0};
  Seconds uplink_latency{0};
  bool shared = true;  ///< every link
};

/// Devices spread evenly over the sites, one per host; each host has a NIC, each site an uplink where there are
/// several.
Platform make_platform(const SyntheticPlatform&);

struct SyntheticPipeline {
  std::string order = "1f1b";
  int micro_batches = 8;
  Seconds forward{1}, backward{2};  ///< of a device; the halves of a split backward take equally long
  Bytes message{0};                 ///< between neighbours, both ways
};

/// A stage on each device of the platform, or as many as the order has there.
Program make_pipeline(const Platform&, const SyntheticPipeline&);

/// For programs made by hand: adds a step's task to the list of its device, made where there is none yet.
/// A per-micro-batch task gets its steps by the caller.
TaskId add_task(Program&, Task);
TaskId add_compute(Program&, DeviceId, Seconds duration, std::vector<TaskId> after = {});

/// A send and its recv, once per iteration. The send waits for `after`.
struct MessageTasks {
  TaskId send, recv;
};
MessageTasks add_message(Program&, DeviceId from, DeviceId to, Bytes, std::vector<TaskId> after = {});

}  // namespace fusion
