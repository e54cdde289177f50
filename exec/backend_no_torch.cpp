// Stands in for the torch backend where the build found no libtorch.
#include "core/base/error.h"
#include "exec/backend_rows.h"

namespace fusion::exec {
namespace {

std::unique_ptr<Backend> refuse(const Graph&, const Part&, ParameterStore&, const BackendOptions&) {
  throw InputError("", "backend", "\"torch\": built without libtorch: install libtorch-dev and build again");
}

}  // namespace

BackendRow torch_row() {
  return {"torch", "libtorch (not in this build)", [](OpKind) { return false; }, refuse};
}

}  // namespace fusion::exec
