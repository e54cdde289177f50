// The picture models of the built-in table, as torchvision has them: names, strides and parameter counts.
#pragma once

#include <array>

#include "core/graph/models.h"

namespace fusion {

/// ResNet (He et al., 2015) with the stride on the 3 x 3 convolution ("v1.5"), 1,000 classes. `blocks` per stage;
/// `bottleneck` blocks are 1 x 1, 3 x 3, 1 x 1 and four times as wide. Takes pictures of 32 and more: the stem
/// (7 x 7 stride 2, pool stride 2) stays the same, so 32 x 32 reaches 1 x 1 at the last stage.
Graph build_resnet(const char* name, std::array<int, 4> blocks, bool bottleneck, const ModelOptions&);

/// VGG-16 without batch normalisation (Simonyan and Zisserman, 2014), 1,000 classes, pictures of 224.
Graph build_vgg16(const ModelOptions&);

/// A small perceptron for 28 x 28 pictures in 10 classes (the IDX data sets): 784 - 1024 - 1024 - 1024 - 10 with ReLU,
/// 2,913,290 parameters. To try things out.
Graph build_mlp(const ModelOptions&);

}  // namespace fusion
