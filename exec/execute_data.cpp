#include "exec/execute_data.h"

#include <nlohmann/json.hpp>
#include <span>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

using Json = nlohmann::ordered_json;

Bytestring to_bytes(const Json& json) {
  const std::string text = json.dump();
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Json from_bytes(const Bytestring& bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return Json::parse(text, text + bytes.size());
}

/// {} where a rank has none.
Json facts_of(const DataSet* data) {
  if (data == nullptr) return Json::object();
  return {{"identity", data->identity()}, {"remark", data->remark()}, {"num_samples", data->num_samples()}};
}

/// Rank 0's: what those say that have data, or {"differ": …}.
Json judged(const std::vector<Bytestring>& all) {
  Json agreed = Json::object();
  std::size_t from = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Json facts = from_bytes(all[rank]);
    if (facts.empty()) continue;
    if (agreed.empty()) {
      agreed = facts;
      from = rank;
    } else if (facts != agreed) {
      const auto said = [](std::size_t of, const Json& what) {
        return "rank " + std::to_string(of) + " has " + in_quotes(what["identity"].get<std::string>());
      };
      return {{"differ", said(from, agreed) + ", " + said(rank, facts) + "; give every rank the same files"}};
    }
  }
  return agreed;
}

}  // namespace

DataFacts agree_on_data(Council& council, const DataSet* mine) {
  const std::string what = "what data to train on";
  const auto all = council.gather(Topic::data, 0, to_bytes(facts_of(mine)), what);
  const Json told = from_bytes(council.tell(Topic::data, 0, all.empty() ? Bytestring{} : to_bytes(judged(all)), what));
  if (told.contains("differ")) throw InputError("", "--data", told["differ"].get<std::string>());
  check(!told.empty(), "no rank has data");
  return {told["identity"], told["remark"], told["num_samples"]};
}

}  // namespace fusion::exec
