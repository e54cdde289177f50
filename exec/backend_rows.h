// The rows of the backend table. Only the backends and the table include this.
#pragma once

#include "exec/backend.h"

namespace fusion::exec {

BackendRow torch_row();
BackendRow eigen_row();

/// An input or a label: nothing computes it, its value comes with the data.
inline bool is_source(OpKind kind) { return kind == OpKind::input || kind == OpKind::label; }

/// Throws InputError naming the first op whose kind the backend does not have.
void require_kinds(std::string_view backend, bool (*has)(OpKind), const Graph&, const Part&);

}  // namespace fusion::exec
