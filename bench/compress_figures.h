// One codec on one tensor: how long, how large, how wrong, and from which bandwidth on it does not pay.
#pragma once

#include <optional>
#include <string>

#include "bench/tensors.h"
#include "core/base/units.h"
#include "core/compress/codec.h"

namespace fusion::bench {

struct CodecFigures {
  const compress::MethodRow* row = nullptr;
  double encode_s = 0, decode_s = 0, read_s = 0;
  std::size_t bytes = 0, dense_bytes = 0, kept = 0;
  std::optional<double> entropy_ratio;
  double relative_error = 0;  ///< over the elements that the receiver sees
  double contraction = 0, bound = 0;

  double codec_s() const { return encode_s + decode_s; }
  /// On a link of rate b, dense takes 8 D / b and coded codec_s + 8 M / b: equal at this b, and coding pays below.
  double break_even_bits_per_s() const {
    return bytes >= dense_bytes ? 0 : 8 * static_cast<double>(dense_bytes - bytes) / codec_s();
  }
};

/// The shortest of `turns` times each. `cold`: top-k estimates its threshold anew each time.
CodecFigures measure_codec(const compress::MethodRow&, const Sample&, const compress::MethodOptions&, bool cold,
                           int turns);

/// "compress", "don't compress here"
std::string verdict(const CodecFigures&, BytesPerSecond link);

double bytes_per_kept(const CodecFigures&);

}  // namespace fusion::bench
