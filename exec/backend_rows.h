// The rows of the backend table. Only the backends and the table include this.
#pragma once

#include "exec/backend.h"

namespace fusion::exec {

BackendRow torch_row();
BackendRow eigen_row();

}  // namespace fusion::exec
