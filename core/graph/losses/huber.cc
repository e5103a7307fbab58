#include <cmath>

#include "core/graph/losses/difference_loss.h"

namespace muster::losses {
namespace {

struct HuberCurve {
  double delta = 1.0;

  double value(double d) const {
    const double magnitude = std::abs(d);
    const double bounded = magnitude < delta ? magnitude : delta;
    return bounded * (magnitude - 0.5 * bounded);
  }
  double slope(double d) const {
    const double low = d < -delta ? -delta : d;
    return low > delta ? delta : low;
  }
};

// Huber's loss (Huber 1964, as torch.nn.HuberLoss): with d = x - t, terms d^2 / 2 where |d| <=
// delta and delta (|d| - delta / 2) beyond; "mean" divides by the number of elements.
//   delta  > 0, default 1
class Huber final : public DifferenceLoss<HuberCurve> {
 public:
  using DifferenceLoss::DifferenceLoss;

  std::string_view type() const override { return "huber"; }

  Json to_json() const override {
    return {
        {"type", type()}, {"reduction", losses::to_string(reduction())}, {"delta", curve().delta}};
  }
};

}  // namespace

Created create_huber(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  const double delta = attributes.number("delta", 1.0, {1e-12, 1e12});
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<Huber>(reduction, size, HuberCurve{delta});
}

}  // namespace muster::losses
