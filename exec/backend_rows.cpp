#include "exec/backend_rows.h"

#include "core/base/error.h"
#include "core/graph/ops.h"

namespace fusion::exec {

void require_kinds(std::string_view backend, bool (*has)(OpKind), const Graph& graph, const Part& part) {
  for (const OpId id : part.ops)
    if (const Op& op = graph.op(id); !has(op.kind))
      throw InputError(
          graph.name, op.name,
          "the backend \"" + std::string(backend) + "\" does not have " + std::string(row_of(op.kind).name));
}

}  // namespace fusion::exec
