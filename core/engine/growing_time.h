// A time, and how much later it comes in the next period of a steady state.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

namespace fusion {

struct Time {
  double at_s = 0;
  double grows_s = 0;  ///< per period; 0 unless a period is being tried
};

inline Time operator+(Time time, double seconds) { return {time.at_s + seconds, time.grows_s}; }

/// The later of two times, over and over, and for how many periods all the choices made so far stay the same: a time
/// that is earlier now and grows faster overtakes after (difference now) / (difference in growth) periods.
class Later {
 public:
  Time operator()(Time a, Time b) {
    if (a.at_s < b.at_s || (a.at_s == b.at_s && a.grows_s < b.grows_s)) std::swap(a, b);
    if (b.grows_s > a.grows_s + tolerance_s_)
      periods_ = std::min(periods_, (a.at_s - b.at_s) / (b.grows_s - a.grows_s));
    return a;
  }

  /// From here on. Growth that differs by less than the tolerance is rounding.
  void begin(double tolerance_s) {
    tolerance_s_ = tolerance_s;
    periods_ = std::numeric_limits<double>::infinity();
  }
  double periods() const { return periods_; }

 private:
  double tolerance_s_ = 0;
  double periods_ = std::numeric_limits<double>::infinity();
};

}  // namespace fusion
