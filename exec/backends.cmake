# What computes. An absent framework is a file, chosen here.
add_library(fusion-exec-torch STATIC)
target_link_libraries(fusion-exec-torch PUBLIC fusion-exec-core)
if(FUSION_WITH_TORCH)
  # libtorch's headers are slow to read: few sources include them, and of ATen only the ops they call.
  target_sources(fusion-exec-torch PRIVATE
    backend_torch.cpp
    backend_torch_attention.cpp
    backend_torch_ops.cpp
    backend_torch_tensor.cpp
  )
  target_sources(fusion-exec-torch PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES
    backend_torch_ops.h
    backend_torch_tensor.h
  )
  target_link_libraries(fusion-exec-torch PRIVATE ${TORCH_LIBRARIES} ${CMAKE_DL_LIBS})
else()
  target_sources(fusion-exec-torch PRIVATE backend_no_torch.cpp)
endif()

find_package(Eigen3 REQUIRED)
add_library(fusion-exec-backends STATIC
  backend_eigen.cpp
  backend_eigen_attention.cpp
  backend_eigen_linear.cpp
  backend_eigen_norm.cpp
  backend_eigen_pointwise.cpp
  backend_eigen_shape.cpp
  backend_table.cpp
)
target_link_libraries(fusion-exec-backends PUBLIC fusion-exec-core PRIVATE fusion-exec-torch Eigen3::Eigen)
