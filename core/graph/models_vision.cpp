#include "core/graph/models_vision.h"

#include "core/base/error.h"
#include "core/graph/builder.h"
#include "core/graph/models_text.h"

namespace fusion {
namespace {

constexpr std::int64_t num_classes = 1000;

std::int64_t image_size(const ModelOptions& options, std::int64_t fallback, const char* name) {
  refuse_sequence_length(options, name);
  const std::int64_t size = options.image_size == 0 ? fallback : options.image_size;
  constexpr std::int64_t least = 1, most = 1 << 20;
  if (size < least || size > most) throw InputError(name, "image_size", std::to_string(size) + " is no picture's size");
  return size;
}

[[noreturn]] void refuse_size(const char* name, std::int64_t size, const std::string& wanted) {
  throw InputError(name, "image_size", std::to_string(size) + " is not possible: " + wanted);
}

TensorId conv_norm(GraphBuilder& net, const std::string& conv, const std::string& norm, TensorId x,
                   std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
  return net.unary(OpKind::batch_norm, norm, net.conv2d(conv, x, channels, kernel, stride, kernel / 2));
}

/// [B, C, H, W] to [B, C H W].
TensorId flatten(GraphBuilder& net, const std::string& name, TensorId x) {
  const Shape s = net.tensor(x).shape;
  return net.unary(OpKind::reshape, name, x, {{"shape", Shape{s[0], s[1] * s[2] * s[3]}}});
}

/// The two or three convolutions of a block, `width` wide and `out` at its end.
TensorId resnet_branch(GraphBuilder& net, const std::string& at, TensorId x, std::int64_t width, std::int64_t stride,
                       bool bottleneck) {
  const auto relu = [&](const std::string& i, TensorId t) { return net.unary(OpKind::relu, at + ".relu" + i, t); };
  if (!bottleneck) {
    x = relu("1", conv_norm(net, at + ".conv1", at + ".bn1", x, width, 3, stride));
    return conv_norm(net, at + ".conv2", at + ".bn2", x, width, 3, 1);
  }
  x = relu("1", conv_norm(net, at + ".conv1", at + ".bn1", x, width, 1, 1));
  x = relu("2", conv_norm(net, at + ".conv2", at + ".bn2", x, width, 3, stride));
  return conv_norm(net, at + ".conv3", at + ".bn3", x, 4 * width, 1, 1);
}

/// relu(branch(x) + x), with a projection where the shape changes.
TensorId resnet_block(GraphBuilder& net, const std::string& at, TensorId x, std::int64_t width, std::int64_t stride,
                      bool bottleneck) {
  const std::int64_t out = bottleneck ? 4 * width : width;
  const TensorId branch = resnet_branch(net, at, x, width, stride, bottleneck);
  if (net.tensor(x).shape != net.tensor(branch).shape)
    x = conv_norm(net, at + ".downsample.0", at + ".downsample.1", x, out, 1, stride);
  return net.unary(OpKind::relu, at + ".relu", net.add(at + ".add", branch, x));
}

TensorId resnet_stem(GraphBuilder& net, std::int64_t micro_batch, std::int64_t size) {
  net.block("stem");
  TensorId x = net.input("image", {micro_batch, 3, size, size});
  x = net.unary(OpKind::relu, "relu", conv_norm(net, "conv1", "bn1", x, 64, 7, 2));
  return net.unary(OpKind::max_pool, "maxpool", x, {{"kernel", 3}, {"stride", 2}, {"padding", 1}});
}

/// The 13 convolutions of VGG-16, by stage.
constexpr std::array<int, 5> vgg16_depths = {2, 2, 3, 3, 3};
constexpr std::array<std::int64_t, 5> vgg16_widths = {64, 128, 256, 512, 512};

TensorId vgg16_features(GraphBuilder& net, TensorId x) {
  int index = 0;
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (std::size_t stage = 0; stage < vgg16_depths.size(); ++stage) {
    net.block("stage" + std::to_string(stage + 1));
    for (int i = 0; i < vgg16_depths[stage]; ++i) {
      x = net.conv2d(next(), x, vgg16_widths[stage], 3, 1, 1, true);
      x = net.unary(OpKind::relu, next(), x);
    }
    x = net.unary(OpKind::max_pool, next(), x, {{"kernel", 2}});
  }
  return x;
}

}  // namespace

Graph build_resnet(const char* name, std::array<int, 4> blocks, bool bottleneck, const ModelOptions& options) {
  const std::int64_t size = image_size(options, 224, name);
  if (size < 32) refuse_size(name, size, "a ResNet halves a picture five times, 32 or more are wanted");
  GraphBuilder net(name, options.micro_batch, options.dtype);
  TensorId x = resnet_stem(net, options.micro_batch, size);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string number = std::to_string(stage + 1) + "." + std::to_string(block);
      net.block("stage" + number);
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = resnet_block(net, "layer" + number, x, std::int64_t{64} << stage, stride, bottleneck);
    }
  net.block("head");
  x = flatten(net, "flatten", net.unary(OpKind::avg_pool, "avgpool", x));
  net.cross_entropy("loss", net.linear("fc", x, num_classes), net.label("label", {options.micro_batch}));
  return std::move(net).finish();
}

Graph build_vgg16(const ModelOptions& options) {
  const std::int64_t size = image_size(options, 224, "vgg16");
  if (size != 224) refuse_size("vgg16", size, "its first linear layer reads 7 x 7 pictures, which come from 224");
  GraphBuilder net("vgg16", options.micro_batch, options.dtype);
  net.block("stage1");
  TensorId x = vgg16_features(net, net.input("image", {options.micro_batch, 3, size, size}));
  net.block("head");
  x = flatten(net, "flatten", x);
  for (int i = 0; i < 2; ++i) {  // numbered as in torchvision: linear, relu, dropout
    const auto at = [&](int offset) { return "classifier." + std::to_string(3 * i + offset); };
    x = net.unary(OpKind::relu, at(1), net.linear(at(0), x, 4096));
    x = net.unary(OpKind::dropout, at(2), x, {{"p", 0.5}});
  }
  net.cross_entropy("loss", net.linear("classifier.6", x, num_classes), net.label("label", {options.micro_batch}));
  return std::move(net).finish();
}

Graph build_mlp(const ModelOptions& options) {
  const std::int64_t size = image_size(options, 28, "mlp");
  if (size != 28) refuse_size("mlp", size, "it reads pictures of 28 x 28");
  GraphBuilder net("mlp", options.micro_batch, options.dtype);
  net.block("0");
  TensorId x = flatten(net, "flatten", net.input("image", {options.micro_batch, 1, size, size}));
  for (int layer = 0; layer < 3; ++layer) {
    const std::string number = std::to_string(layer);
    net.block(number);
    x = net.unary(OpKind::relu, "relu." + number, net.linear("hidden." + number, x, 1024));
  }
  net.block("head");
  net.cross_entropy("loss", net.linear("head", x, 10), net.label("label", {options.micro_batch}));
  return std::move(net).finish();
}

}  // namespace fusion
