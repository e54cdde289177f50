#include "exec/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_file.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int format_version = 2, most_ranks = 1'000'000;
constexpr const char* complete = "COMPLETE";

std::string step_name(std::int64_t step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "step-%08lld", static_cast<long long>(step));
  return text.data();
}

/// The step of "step-00000100"; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return {};
  std::int64_t step = 0;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  return step_name(step) == name ? std::optional(step) : std::nullopt;
}

std::string rank_file(int rank, const char* extension) { return "rank-" + std::to_string(rank) + extension; }

Json to_json(const CheckpointInfo& info) {
  return {{"format", format_version},
          {"step", info.step},
          {"seed", std::to_string(info.seed)},  // 64 bits, which not every reader of JSON keeps
          {"model", info.model},
          {"optimizer", info.optimizer},
          {"data",
           {{"identity", info.data.identity},
            {"samples", info.data.samples},
            {"epoch", info.data.epoch},
            {"samples_per_step", info.data.samples_per_step}}},
          {"num_ranks", info.num_ranks}};
}

Json to_json(const std::string& name, const FileDigest& digest) {
  return {{"name", name}, {"bytes", digest.bytes}, {"checksum", digest.checksum}};
}

std::uint64_t seed_of(const JsonObject& object) {
  const std::string text = object.string("seed");
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw object.error("seed", in_quotes(text) + " is not a whole number below 2^64");
  return seed;
}

DataState data_of(const JsonObject& object) {
  DataState data{.identity = object.string("identity"),
                 .samples = object.integer("samples", 0, INT64_MAX),
                 .epoch = object.integer("epoch", 0, INT64_MAX),
                 .samples_per_step = object.integer("samples_per_step", 1, INT64_MAX)};
  object.reject_unknown();
  return data;
}

CheckpointInfo info_of(const JsonObject& object) {
  object.integer("format", format_version, format_version);
  return {.step = object.integer("step", 0, INT64_MAX),
          .seed = seed_of(object),
          .model = object.string("model"),
          .optimizer = object.string("optimizer"),
          .data = data_of(object.object("data")),
          .num_ranks = static_cast<int>(object.integer("num_ranks", 1, most_ranks))};
}

FileDigest digest_in(const JsonObject& object, const std::string& name) {
  if (object.string("name") != name) throw object.error("name", "must be " + in_quotes(name));
  FileDigest digest{object.integer("bytes", 0, INT64_MAX), object.string("checksum")};
  object.reject_unknown();
  return digest;
}

void write_json(const fs::path& path, const Json& json) {
  const std::string text = json.dump(2) + '\n';
  DurableFile out(path);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
}

void require_same(const JsonObject& object, const CheckpointInfo& found, const CheckpointInfo& wanted) {
  if (found == wanted) return;
  throw object.error("",
                     "belongs to another checkpoint: its step, seed, model, optimizer, data or number of ranks differ");
}

/// What a rank's sidecar says of its tensors.
FileDigest read_sidecar(const fs::path& path, const CheckpointInfo& info, int rank) {
  const JsonObject sidecar = load_json(path);
  require_same(sidecar, info_of(sidecar), info);
  sidecar.integer("rank", rank, rank);
  const FileDigest digest = digest_in(sidecar.object("tensors"), rank_file(rank, ".safetensors"));
  sidecar.reject_unknown();
  return digest;
}

void require_digest(const fs::path& path, const FileDigest& wanted) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw InputError(path.string(), "", "is missing");
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, ignored));
  if (bytes != wanted.bytes)
    throw InputError(path.string(), "",
                     "has " + std::to_string(bytes) + " bytes, " + std::to_string(wanted.bytes) + " were written");
  if (digest_of(path) != wanted) throw InputError(path.string(), "", "has changed since it was written: its checksum");
}

/// Every file of a step is there and as it was written. Throws InputError for the first that is not.
CheckpointInfo verified(const fs::path& directory) {
  const fs::path path = directory / complete;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw InputError(directory.string(), "", "is not complete: a run ended while it was written");
  const JsonObject list = load_json(path);
  const CheckpointInfo info = info_of(list);
  const fs::path named = directory.has_filename() ? directory : directory.parent_path();  // "step-00000100/"
  if (step_name(info.step) != named.filename())
    throw list.error("step", std::to_string(info.step) + " is not the step that the directory is named after");
  const std::vector<JsonObject> files = list.objects("files");
  list.reject_unknown();
  if (files.size() != 2 * static_cast<std::size_t>(info.num_ranks))
    throw list.error("files", std::to_string(files.size()) + " files of " + std::to_string(info.num_ranks) + " ranks");
  for (int rank = 0; rank < info.num_ranks; ++rank) {
    const std::string sidecar = rank_file(rank, ".json"), tensors = rank_file(rank, ".safetensors");
    const auto at = 2 * static_cast<std::size_t>(rank);
    require_digest(directory / sidecar, digest_in(files[at], sidecar));
    const FileDigest digest = digest_in(files[at + 1], tensors);
    if (read_sidecar(directory / sidecar, info, rank) != digest)
      throw files[at + 1].error("checksum", "is not the one in " + sidecar);
    require_digest(directory / tensors, digest);
  }
  return info;
}

/// Steps of a directory, the latest first.
std::vector<std::int64_t> steps_in(const fs::path& directory) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (const auto step = step_of(it->path().filename())) steps.push_back(*step);
  if (error) throw InputError(directory.string(), "", "can't be read: " + error.message());
  std::ranges::sort(steps, std::greater());
  return steps;
}

}  // namespace

void write_checkpoint(const fs::path& directory, const CheckpointInfo& info, int rank, const NamedTensors& tensors) {
  check(rank >= 0 && rank < info.num_ranks && info.step >= 0, "a rank or step that no checkpoint has");
  const fs::path step = directory / step_name(info.step);
  make_durable_directory(step);
  remove_durably(step / complete);  // of an earlier run that reached this step and was refused since
  const std::string name = rank_file(rank, ".safetensors");
  Json sidecar = to_json(info);
  sidecar["rank"] = rank;
  sidecar["tensors"] = to_json(name, write_safetensors(step / name, tensors));
  write_json(step / rank_file(rank, ".json"), sidecar);
}

void finish_checkpoint(const fs::path& directory, const CheckpointInfo& info) {
  const fs::path step = directory / step_name(info.step);
  Json list = to_json(info), files = Json::array();
  for (int rank = 0; rank < info.num_ranks; ++rank) {
    const std::string sidecar = rank_file(rank, ".json"), tensors = rank_file(rank, ".safetensors");
    files.push_back(to_json(sidecar, digest_of(step / sidecar)));
    files.push_back(to_json(tensors, read_sidecar(step / sidecar, info, rank)));
  }
  list["files"] = std::move(files);
  write_json(step / complete, list);
}

std::optional<fs::path> newest_checkpoint(const fs::path& directory, std::vector<std::string>& refused) {
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) return {};
  for (const std::int64_t step : steps_in(directory)) {
    const fs::path candidate = directory / step_name(step);
    try {
      verified(candidate);
      return candidate;
    } catch (const InputError& error) {
      refused.emplace_back(error.what());
    }
  }
  return {};
}

Checkpoint read_checkpoint(const fs::path& step_directory) {
  Checkpoint checkpoint{.info = verified(step_directory), .tensors = {}};
  for (int rank = 0; rank < checkpoint.info.num_ranks; ++rank) {
    const fs::path path = step_directory / rank_file(rank, ".safetensors");
    NamedTensors share = read_safetensors(path);
    checkpoint.tensors.merge(share);  // what stays behind in `share` was there already: a tied parameter's other copy
    for (const auto& [name, tensor] : share)
      if (checkpoint.tensors.at(name) != tensor)
        throw InputError(path.string(), name, "differs from the copy of a lower rank");
  }
  return checkpoint;
}

}  // namespace fusion::exec
