// A Report as tables for people.
#pragma once

#include <string>

#include "core/report/report.h"
#include "core/report/table.h"

namespace fusion {

Table device_table(const Report&);
/// Channels by time in use, longest first, at most `most` of them.
Table channel_table(const Report&, std::size_t most);
/// One line: iteration, rate, devices, engine and network profile.
std::string summary(const Report&);

}  // namespace fusion
