// Pictures in memory, as bytes, and how they fit a network.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/data_sources.h"

namespace fusion::exec {

struct Pictures {
  std::string_view source;  ///< of the table of data
  std::int64_t channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  ///< [N, channels, height, width]
  std::vector<std::uint8_t> labels;  ///< [N]
};

/// Values are byte / 127.5 - 1. An input [B, C, H, W] is met so: a picture of one channel is repeated over all C; it
/// is enlarged by the largest whole factor that fits (every pixel a square), and centred on black, the odd row or
/// column going to the end; DataSet::remark says so. An input [B, channels x height x width] takes them as they are.
/// `file` is what errors name. Throws InputError for any other input, for labels that are not [B], and for a label
/// beyond the model's classes.
std::unique_ptr<DataSet> fit_pictures(const DataRequest&, const std::string& file, Pictures);

}  // namespace fusion::exec
