// The native engine's figures, each beside its goal and the same activities on a bare heap of events.
#pragma once

#include <string>

#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion::bench {

/// Sites of 64 devices, NICs of 10 Gbps, uplinks of 1 Gbps.
Platform platform_of(int devices);

/// Equal stages, one a device: 10 ms forward, 20 ms backward, 4 MiB between neighbours.
Program pipeline_of(const Platform&, const std::string& order, int micro_batches);

/// An Exec per step and a Comm per message; a recv is its send's end.
double num_activities(const Program&);

/// Measures and prints all of them. Takes about a minute, most of it for SimGrid's thousand runs.
void print_figures(bool json);

}  // namespace fusion::bench
