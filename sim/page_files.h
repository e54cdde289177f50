// The files of sim/report and the charting library, as CMake found them when it configured (sim/report/CMakeLists.txt).
#pragma once

#include <string_view>

namespace fusion::sim::page_files {

extern const std::string_view markup, style, script;
extern const std::string_view library;  ///< d3.min.js; empty where its package was missing

}  // namespace fusion::sim::page_files
