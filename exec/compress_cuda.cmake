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
else()
  target_sources(fusion-compress-cuda PRIVATE compress_no_cuda.cpp)
  target_link_libraries(fusion-compress-cuda PRIVATE fusion-options)
endif()
