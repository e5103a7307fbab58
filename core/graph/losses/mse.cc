#include "core/graph/losses/difference_loss.h"

namespace muster::losses {
namespace {

struct Square {
  double value(double d) const { return d * d; }
  double slope(double d) const { return 2.0 * d; }
};

// Mean squared error: terms (x - t)^2; "mean" divides by the number of elements
// (torch.nn.MSELoss).
class MeanSquaredError final : public DifferenceLoss<Square> {
 public:
  using DifferenceLoss::DifferenceLoss;

  std::string_view type() const override { return "mse"; }

  Json to_json() const override {
    return {{"type", type()}, {"reduction", losses::to_string(reduction())}};
  }
};

}  // namespace

Created create_mse(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<MeanSquaredError>(reduction, size);
}

}  // namespace muster::losses
