#pragma once

#include <cstddef>
#include <utility>

#include "core/graph/losses/lane_sum.h"
#include "core/graph/losses/registry.h"

namespace muster::losses {

// A loss for numbers whose terms are a curve of the difference d = prediction - target, an element
// each; "mean" divides by the number of elements.
//   Curve  value(d) and its derivative slope(d), in double; NaN and infinity give a value that is
//          not finite
template <typename Curve>
class DifferenceLoss : public Loss {
 public:
  DifferenceLoss(Reduction reduction, std::int64_t size, Curve curve = {})
      : Loss(reduction, 0, size), curve_(curve) {}

 protected:
  const Curve& curve() const { return curve_; }

  double sum_terms(std::span<const float> prediction, const TargetView& target, double scale,
                   std::span<float> gradient) const override {
    const float* x = prediction.data();
    const float* t = target.values.data();
    const Curve curve = curve_;
    if (gradient.empty()) {
      return lane_sum(prediction.size(), [=](std::size_t i) {
        return curve.value(static_cast<double>(x[i]) - static_cast<double>(t[i]));
      });
    }
    float* g = gradient.data();
    return lane_sum(prediction.size(), [=](std::size_t i) {
      const double d = static_cast<double>(x[i]) - static_cast<double>(t[i]);
      g[i] = static_cast<float>(curve.slope(d) * scale);
      return curve.value(d);
    });
  }

 private:
  Curve curve_;
};

}  // namespace muster::losses
