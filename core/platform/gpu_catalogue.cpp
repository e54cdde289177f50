#include "core/platform/gpu_catalogue.h"

#include <algorithm>

#include "core/graph/ops.h"
#include "core/platform/measured_ops.h"

namespace fusion {
namespace {

double share(const TomlTable& table, std::string_view key) {
  const double value = table.real(key);
  if (value > 0 && value <= 1) return value;
  throw table.error(key, std::to_string(value) + " is not a share of the peak; write a number above 0 and up to 1");
}

/// A path that stands in a file means from the file's own folder.
std::filesystem::path beside(const std::string& file, const std::string& path) {
  return std::filesystem::path(file).parent_path() / path;
}

std::vector<KindSpeed> kind_speeds(const TomlTable& table) {
  std::vector<std::string_view> kinds;
  for (const OpRow& row : op_table()) kinds.push_back(row.name);
  std::vector<KindSpeed> speeds;
  for (const std::string& kind : table.keys()) {
    if (std::ranges::find(kinds, kind) == kinds.end())
      throw table.error(kind, "no such op; " + unknown_name(kind, kinds));
    speeds.push_back({kind, table.real(kind)});
    if (speeds.back().speed <= 0)
      throw table.error(kind, std::to_string(speeds.back().speed) + "; write a number above 0");
  }
  std::ranges::sort(speeds, {}, &KindSpeed::kind);
  return speeds;
}

}  // namespace

GpuType read_gpu(const TomlTable& table) {
  GpuType gpu;
  const bool has_bf16 = table.has("peak_bf16");
  gpu.name = table.string("name");
  gpu.peak_fp32 = table.flops_per_second("peak_fp32");
  gpu.peak_fp16 = table.flops_per_second("peak_fp16");
  gpu.peak_bf16 = has_bf16 ? table.flops_per_second("peak_bf16") : gpu.peak_fp32;
  gpu.memory = table.bytes("memory");
  gpu.memory_bandwidth = table.bandwidth("memory_bandwidth");
  gpu.sustained_flops = share(table, "sustained_flops");
  gpu.sustained_bandwidth = share(table, "sustained_bandwidth");
  gpu.launch_overhead = table.seconds("launch_overhead");
  gpu.source = table.string("source");
  if (table.has("update_bandwidth")) gpu.update_bandwidth = table.bandwidth("update_bandwidth");
  if (table.has("kind_speed")) gpu.kind_speed = kind_speeds(table.table("kind_speed"));
  if (table.has("profile")) gpu.measured = load_measured_ops(beside(table.file(), table.string("profile")));
  table.reject_unknown();
  if (gpu.name.empty()) throw table.error("name", "is empty");
  return gpu;
}

std::vector<GpuType> read_gpus(const TomlTable& root) {
  std::vector<GpuType> gpus;
  for (const auto& table : root.tables("gpu")) {
    GpuType gpu = read_gpu(table);
    if (std::ranges::find(gpus, gpu.name, &GpuType::name) != gpus.end())
      throw table.error("name", in_quotes(gpu.name) + " is given twice");
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<GpuType> gpu_catalogue() {
  const TomlTable root = load_toml(platforms_directory() / "gpus.toml");
  auto gpus = read_gpus(root);
  root.reject_unknown();
  return gpus;
}

GpuType find_gpu(const std::string& name) {
  const auto gpus = gpu_catalogue();
  const auto found = std::ranges::find(gpus, name, &GpuType::name);
  if (found != gpus.end()) return *found;
  const std::vector<std::string_view> names = [&] {
    std::vector<std::string_view> all;
    for (const auto& gpu : gpus) all.push_back(gpu.name);
    return all;
  }();
  throw InputError("", "gpu", unknown_name(name, names));
}

}  // namespace fusion
