// Groups of devices: what the rows and columns of a link matrix stand for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/platform/platform.h"

namespace fusion {

std::size_t num_groups(const Platform&, LinkMatrix::Level);
const std::string& group_name(const Platform&, LinkMatrix::Level, std::size_t group);
std::size_t group_of(const Platform&, LinkMatrix::Level, DeviceId);

/// The matrix link that serves a pair. None where there is no matrix, where its diagonal is not used, and inside a host
/// whose bus serves the pair already.
std::optional<LinkId> matrix_entry(const Platform&, DeviceId from, DeviceId to);

/// Some of the devices, in the platform's order whatever theirs is, and what they need. Precondition: they differ, and
/// there is one.
Platform only_devices(const Platform&, const std::vector<DeviceId>&);

}  // namespace fusion
