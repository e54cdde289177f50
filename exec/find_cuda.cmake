# Finds the CUDA toolkit; `FUSION_WITH_CUDA` says whether. Included at the top, where a language must be enabled.
#   FUSION_CUDA=AUTO  the kernels where nvcc is found, else one line that says so
#   FUSION_CUDA=ON    an error where it is not found (the preset `cuda`)
#   FUSION_CUDA=OFF   never
set(FUSION_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO, ON or OFF")
set_property(CACHE FUSION_CUDA PROPERTY STRINGS AUTO ON OFF)

set(FUSION_WITH_CUDA OFF)
if(FUSION_CUDA)
  find_program(FUSION_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATH_SUFFIXES bin PATHS /usr/local/cuda)
  if(FUSION_NVCC)
    set(FUSION_WITH_CUDA ON)
  elseif(FUSION_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA toolkit not found: going on without the GPU kernels")
  else()
    message(FATAL_ERROR "FUSION_CUDA is ${FUSION_CUDA}, but no nvcc was found; put it on the PATH or set CUDA_PATH")
  endif()
endif()

if(FUSION_WITH_CUDA)
  set(CMAKE_CUDA_COMPILER ${FUSION_NVCC})
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)  # A100 and its kin, Hopper
  endif()
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
endif()
