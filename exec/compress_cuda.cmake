# The compressors' CUDA kernels. An absent backend is a file, chosen here.
add_library(fusion-compress-cuda STATIC)
target_include_directories(fusion-compress-cuda PUBLIC ${PROJECT_SOURCE_DIR})
target_sources(fusion-compress-cuda PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES
  compress_cuda.h
  kernels/quantise_data.h
  kernels/sparse_data.h
  kernels/topk_data.h
)
if(FUSION_WITH_CUDA)
  target_sources(fusion-compress-cuda PRIVATE compress_cuda.cu)
  # No contraction: a product and a sum round twice, as on the CPU.
  target_compile_options(fusion-compress-cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-Wall,-Wextra>)
  set_target_properties(fusion-compress-cuda PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)

  # Compares the kernels with the CPU and times them. The script gpu_check builds it alone, where libraries are few.
  find_package(CUDAToolkit REQUIRED)
  add_library(fusion-read-pass STATIC check/read_pass.cu)
  target_include_directories(fusion-read-pass PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(fusion-read-pass PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  add_executable(fusion-gpu-check
    check/cases.cpp
    check/check_quantise.cpp
    check/check_sparse.cpp
    check/check_topk.cpp
    check/gpu_check.cpp
    check/measure.cpp
  )
  target_link_libraries(fusion-gpu-check PRIVATE fusion-core fusion-compress-cuda fusion-read-pass CUDA::cudart_static)
else()
  target_sources(fusion-compress-cuda PRIVATE compress_no_cuda.cpp)
  target_link_libraries(fusion-compress-cuda PRIVATE fusion-options)
endif()
