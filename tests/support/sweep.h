// fusion-sim sweep as a user runs it, in folders of its own, and a grid of 24 set-ups.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace fusion {

/// 2 x 3 x 2 x 2 = 24 set-ups, of which llama-2-7b fits no device: 12.
inline const std::string llama = std::string(FUSION_SOURCE_DIRECTORY) + "/experiments/models/llama-2-7b/config.json";
inline const std::string axes = " -m model=mlp," + llama +
                                " platform=lan4 policy=equal-number,op-fence,random compress=none,int8 "
                                "\"bandwidth=8 Mbps,1 Gbps\" ";

class Sweep : public testing::Test {
 protected:
  Outcome sweep(const std::string& arguments, const std::string& prefix = "") const {
    return run_program(prefix + FUSION_SIM_PROGRAM + " sweep " + arguments);
  }
  std::string folder(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::vector<std::string> lines_of(const std::string& file) {
    std::vector<std::string> lines;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);)
      if (!line.empty()) lines.push_back(line);
    return lines;
  }
  TemporaryFolder folder_;
};

}  // namespace fusion
