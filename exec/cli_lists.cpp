// fusion-exec backends | data: what there is, one line each.
#include "exec/backend.h"
#include "exec/cli.h"
#include "exec/data.h"

namespace fusion::exec {
namespace {

void list_backends() {
  Table table({{"backend"}, {"what it is"}});
  for (const BackendRow& row : backend_table()) table.add({std::string(row.name), std::string(row.help)});
  print(table);
}

void list_data() {
  Table table({{"data"}, {"what it is"}});
  for (const DataRow& row : data_table()) table.add({std::string(row.name), std::string(row.help)});
  print(table);
}

}  // namespace

void declare_lists(CLI::App& app) {
  app.add_subcommand("backends", "what can compute in this build")
      ->footer("Example:\n  fusion-exec backends")
      ->callback(list_backends);
  app.add_subcommand("data", "the kinds of data set")->footer("Example:\n  fusion-exec data")->callback(list_data);
}

}  // namespace fusion::exec
