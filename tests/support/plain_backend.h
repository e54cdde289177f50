// A backend in plain loops, for tests of what stands around a backend: input, label, embedding, linear, relu, add,
// dropout, cross_entropy.
#pragma once

#include "exec/backend.h"

namespace fusion::exec {

const BackendRow& plain_backend();

}  // namespace fusion::exec
