// The names that kernels are written against, on a GPU: CUDA's own, and grid_sync().
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

/// A barrier of the whole grid, which must have been launched cooperatively.
__device__ inline void grid_sync() { cooperative_groups::this_grid().sync(); }
