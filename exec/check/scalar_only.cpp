// Stands in for core/compress/kernels_simd.cpp where Highway is missing: the portable kernels alone.
#include "core/base/error.h"
#include "core/compress/kernels.h"

namespace fusion::compress {
namespace {
constexpr Target only[] = {Target::scalar};
}

std::string_view name_of(Target) { return "scalar"; }
std::span<const Target> supported_targets() { return only; }
const Kernels& kernels(Target target) {
  check(target == Target::scalar, "an instruction set that this build lacks");
  return detail::scalar_kernels();
}

}  // namespace fusion::compress
