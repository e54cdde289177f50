// Typed indices: an OpId can't be passed where a DeviceId is meant. Each indexes one vector of its owner.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace fusion {

template <class Tag>
struct Id {
  std::uint32_t value{};

  constexpr Id() = default;
  constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}
  constexpr std::size_t index() const { return value; }
  constexpr auto operator<=>(const Id&) const = default;
};

using OpId = Id<struct OpTag>;                ///< Graph::ops
using TensorId = Id<struct TensorTag>;        ///< Graph::tensors
using ParameterId = Id<struct ParameterTag>;  ///< Graph::parameters
using GpuId = Id<struct GpuTag>;              ///< Platform::gpus
using RegionId = Id<struct RegionTag>;        ///< Platform::regions
using SiteId = Id<struct SiteTag>;            ///< Platform::sites
using HostId = Id<struct HostTag>;            ///< Platform::hosts
using DeviceId = Id<struct DeviceTag>;        ///< Platform::devices
using LinkId = Id<struct LinkTag>;            ///< Platform::links
using StageId = Id<struct StageTag>;          ///< Schedule::stages
using TaskId = Id<struct TaskTag>;            ///< Program::tasks

}  // namespace fusion
