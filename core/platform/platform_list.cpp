#include "core/platform/platform_list.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/platform/platform.h"

namespace fusion {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> platform_names() {
  const fs::path directory = platforms_directory();
  if (!fs::is_directory(directory)) throw InputError(directory.string(), "", "no such directory of platforms");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".toml" && entry.path().stem() != "gpus") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

}  // namespace

fs::path platforms_directory() {
  const char* chosen = std::getenv("FUSION_PLATFORMS");
  return chosen != nullptr && *chosen != '\0' ? chosen : FUSION_PLATFORMS_DIRECTORY;
}

fs::path platform_path(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml")) return name_or_path;
  const auto names = platform_names();
  if (std::ranges::find(names, name_or_path) != names.end()) return platforms_directory() / (name_or_path + ".toml");
  if (!name_or_path.empty() && fs::is_regular_file(name_or_path)) return name_or_path;
  const std::vector<std::string_view> valid(names.begin(), names.end());
  throw InputError("", "platform", unknown_name(name_or_path, valid));
}

std::vector<PlatformRow> list_platforms() {
  std::vector<PlatformRow> rows;
  for (const auto& name : platform_names()) {
    const Platform platform = load_platform(name);
    rows.push_back({name, platform.description, platform.devices.size()});
  }
  return rows;
}

}  // namespace fusion
