#include "exec/data_pictures.h"

#include <algorithm>

#include "core/base/error.h"
#include "exec/durable_file.h"

namespace fusion::exec {
namespace {

/// Where a picture lies in the [C, H, W] of the input.
struct Fit {
  std::int64_t channels, height, width;  ///< of the input
  std::int64_t factor, top, left;
};

class PictureSet : public DataSet {
 public:
  PictureSet(Pictures pictures, Fit fit)
      : pictures_(std::move(pictures)),
        fit_(fit),
        identity_(
            std::string(pictures_.source) + ", " + std::to_string(PictureSet::num_samples()) + " pictures " +
            to_string({pictures_.channels, pictures_.height, pictures_.width}) + ", checksum " +
            checksum_of({std::as_bytes(std::span(pictures_.pixels)), std::as_bytes(std::span(pictures_.labels))})) {}

  std::int64_t num_samples() const override { return static_cast<std::int64_t>(pictures_.labels.size()); }
  std::string identity() const override { return identity_; }

  std::string remark() const override {
    const auto [channels, height, width, factor, top, left] = fit_;
    std::string what;
    const auto add = [&](const std::string& more) { what += (what.empty() ? "" : ", ") + more; };
    if (channels != pictures_.channels) add("repeated over " + std::to_string(channels) + " channels");
    if (factor > 1) add("enlarged " + std::to_string(factor) + " times");
    if (factor * pictures_.height < height || factor * pictures_.width < width)
      add("centred on black in " + std::to_string(height) + " x " + std::to_string(width));
    if (what.empty()) return {};
    return "pictures of " + std::to_string(pictures_.height) + " x " + std::to_string(pictures_.width) + " are " +
           what + ", as the model wants them";
  }

  void fill(std::int64_t i, std::int64_t row, HostTensor& input, HostTensor& label) const override {
    const std::int64_t pixels = pictures_.height * pictures_.width, area = fit_.height * fit_.width;
    const auto sample = input.floats().subspan(static_cast<std::size_t>(row * fit_.channels * area),
                                               static_cast<std::size_t>(fit_.channels * area));
    std::ranges::fill(sample, value_of(0));
    for (std::int64_t channel = 0; channel < fit_.channels; ++channel) {
      const std::int64_t source = pictures_.channels == 1 ? 0 : channel;
      draw(pictures_.pixels.data() + (i * pictures_.channels + source) * pixels, sample.data() + channel * area);
    }
    label.integers()[static_cast<std::size_t>(row)] = pictures_.labels[static_cast<std::size_t>(i)];
  }

 private:
  static float value_of(std::uint8_t byte) { return static_cast<float>(byte) / 127.5F - 1; }

  void draw(const std::uint8_t* from, float* to) const {
    for (std::int64_t y = 0; y < pictures_.height * fit_.factor; ++y)
      for (std::int64_t x = 0; x < pictures_.width * fit_.factor; ++x)
        to[(fit_.top + y) * fit_.width + fit_.left + x] =
            value_of(from[y / fit_.factor * pictures_.width + x / fit_.factor]);
  }

  Pictures pictures_;
  Fit fit_;
  std::string identity_;
};

/// Nothing where they don't fit.
std::optional<Fit> fit_of(const Pictures& p, const Shape& shape) {
  if (shape.size() == 2 && shape[1] == p.channels * p.height * p.width)
    return Fit{p.channels, p.height, p.width, 1, 0, 0};
  if (shape.size() != 4) return {};
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  const std::int64_t factor = std::min(height / p.height, width / p.width);
  if (factor == 0 || (p.channels != 1 && p.channels != channels)) return {};
  return Fit{channels, height, width, factor, (height - p.height * factor) / 2, (width - p.width * factor) / 2};
}

}  // namespace

std::unique_ptr<DataSet> fit_pictures(const DataRequest& request, const std::string& file, Pictures pictures) {
  const Tensor &input = request.graph.tensor(request.ports.input), &label = request.graph.tensor(request.ports.label);
  const std::string model = "model " + in_quotes(request.graph.name);
  const auto fit = input.dtype == DType::int64 ? std::nullopt : fit_of(pictures, input.shape);
  if (!fit)
    throw InputError(
        file, "",
        "pictures are " + to_string({pictures.channels, pictures.height, pictures.width}) + ", " + model + " reads " +
            to_string(input.shape) + (input.dtype == DType::int64 ? " tokens" : "") +
            "; they must be as many channels (or one) and no larger, or all their values in one dimension");
  if (label.shape != Shape{request.graph.micro_batch})
    throw InputError(file, "", "has a label per picture, " + model + " learns " + to_string(label.shape));
  const auto beyond = std::ranges::find_if(pictures.labels, [&](auto l) { return l >= request.ports.classes; });
  if (beyond != pictures.labels.end())
    throw InputError(file, "",
                     "label " + std::to_string(beyond - pictures.labels.begin()) + " is " + std::to_string(*beyond) +
                         ", the classes of " + model + " end at " + std::to_string(request.ports.classes - 1));
  return std::make_unique<PictureSet>(std::move(pictures), *fit);
}

}  // namespace fusion::exec
