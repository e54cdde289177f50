// fusion-sim auto.
#pragma once

#include <CLI/CLI.hpp>

namespace fusion::sim {

void declare_auto(CLI::App&);

}  // namespace fusion::sim
