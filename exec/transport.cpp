#include "exec/transport.h"

#include "exec/transport_link.h"

namespace fusion::exec {

LinkShapes shapes_of(const Platform& platform, const std::vector<DeviceId>& devices) {
  LinkShapes shapes(devices.size(), std::vector<std::optional<LinkShape>>(devices.size()));
  for (std::size_t from = 0; from < devices.size(); ++from)
    for (std::size_t to = 0; to < devices.size(); ++to) {
      if (devices[from] == devices[to]) continue;
      const Route path = route(platform, devices[from], devices[to]);
      shapes[from][to] = LinkShape{path.bandwidth, path.latency};
    }
  return shapes;
}

std::vector<ShapedLink> links_from(int rank, int num_ranks, const LinkShapes& shapes) {
  std::vector<ShapedLink> links(static_cast<std::size_t>(num_ranks));
  if (shapes.empty()) return links;
  check(shapes.size() == links.size(), "link shapes have a row for each rank");
  const auto& row = shapes[static_cast<std::size_t>(rank)];
  check(row.size() == links.size(), "link shapes have a column for each rank");
  for (std::size_t to = 0; to < links.size(); ++to) links[to] = ShapedLink(row[to]);
  return links;
}

}  // namespace fusion::exec
