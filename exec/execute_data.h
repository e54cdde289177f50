// What all ranks train on: they agree before anything is read from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exec/data.h"
#include "exec/execute_council.h"

namespace fusion::exec {

/// A data set as ranks that don't hold it know it.
struct DataFacts {
  std::string identity;  ///< DataSet::identity
  std::string remark;    ///< DataSet::remark
  std::int64_t num_samples = 1;
};

/// Collective. `mine` is null on a rank that needs no data. Throws InputError where two ranks have different data, e.g.
/// files of the same name on two machines.
DataFacts agree_on_data(Council&, const DataSet* mine);

}  // namespace fusion::exec
