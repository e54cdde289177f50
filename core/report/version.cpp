#include "core/report/version.h"

namespace fusion {

std::string_view version() { return FUSION_VERSION; }

}  // namespace fusion
