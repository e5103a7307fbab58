#include <cmath>

#include "core/graph/losses/difference_loss.h"

namespace muster::losses {
namespace {

struct Magnitude {
  double value(double d) const { return std::abs(d); }
  double slope(double d) const { return (d > 0 ? 1.0 : 0.0) - (d < 0 ? 1.0 : 0.0); }
};

// Mean absolute error: terms |x - t|, with derivative 0 where x = t; "mean" divides by the number
// of elements (torch.nn.L1Loss).
class MeanAbsoluteError final : public DifferenceLoss<Magnitude> {
 public:
  using DifferenceLoss::DifferenceLoss;

  std::string_view type() const override { return "mae"; }

  Json to_json() const override {
    return {{"type", type()}, {"reduction", losses::to_string(reduction())}};
  }
};

}  // namespace

Created create_mae(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<MeanAbsoluteError>(reduction, size);
}

}  // namespace muster::losses
