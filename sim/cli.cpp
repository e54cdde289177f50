#include "sim/cli.h"

#include <cstdio>

namespace fusion::sim {

void print(const nlohmann::ordered_json& json) { std::puts(json.dump(2).c_str()); }

}  // namespace fusion::sim
