# Finds libtorch; `FUSION_WITH_TORCH` says whether. Included at the top, so that every folder sees its targets.
#   FUSION_TORCH=AUTO  the torch backend where libtorch is found, else one line that says so
#   FUSION_TORCH=ON    an error where it is not found
#   FUSION_TORCH=OFF   never
set(FUSION_TORCH AUTO CACHE STRING "Build the torch backend: AUTO, ON or OFF")
set_property(CACHE FUSION_TORCH PROPERTY STRINGS AUTO ON OFF)

set(FUSION_WITH_TORCH OFF)
if(FUSION_TORCH STREQUAL "ON")
  find_package(Torch REQUIRED)
elseif(FUSION_TORCH)
  find_package(Torch QUIET)
endif()
if(Torch_FOUND OR TORCH_FOUND)
  set(FUSION_WITH_TORCH ON)
elseif(FUSION_TORCH)
  message(STATUS "libtorch not found: going on without the torch backend")
endif()
