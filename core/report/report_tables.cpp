#include "core/report/report_tables.h"

#include <algorithm>

namespace fusion {

Table device_table(const Report& report) {
  Table table({{"device"},
               {"runs"},
               {"busy", Align::right},
               {"bubble", Align::right},
               {"peak memory", Align::right},
               {"of", Align::right}});
  for (const DeviceReport& device : report.devices)
    table.add({device.name, device.stage, format(device.busy), percent(device.bubble_fraction),
               format(device.peak_memory), format(device.memory)});
  return table;
}

Table channel_table(const Report& report, std::size_t most) {
  std::vector<LinkReport> channels = report.links;
  std::stable_sort(channels.begin(), channels.end(), [](auto& a, auto& b) { return a.busy > b.busy; });
  channels.resize(std::min(most, channels.size()));
  Table table({{"from"},
               {"to"},
               {"messages", Align::right},
               {"bytes", Align::right},
               {"dense", Align::right},
               {"busy", Align::right},
               {"of the iteration", Align::right}});
  for (const LinkReport& channel : channels)
    table.add({channel.from, channel.to, std::to_string(channel.messages), format(channel.bytes),
               format(channel.dense_bytes), format(channel.busy), percent(channel.busy / report.iteration)});
  return table;
}

std::string summary(const Report& report) {
  std::string text = report.info.model + " on " + report.info.platform + ": iteration " + format(report.iteration) +
                     " (predicted " + format(report.info.predicted_iteration) + "), " +
                     significant(samples_per_second(report)) + " samples/s";
  if (report.info.tokens > 0) text += ", " + significant(tokens_per_second(report)) + " tokens/s";
  return text + ", " + std::to_string(report.devices.size()) + " of " + std::to_string(report.info.devices_available) +
         " devices; " + report.engine + ", network " + report.network_profile;
}

}  // namespace fusion
