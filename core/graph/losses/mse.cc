#include <cstddef>

#include "core/graph/losses/registry.h"

namespace muster::losses {
namespace {

// sum (x - t)^2; "mean" divides by the number of elements.
class MeanSquaredError final : public Loss {
 public:
  MeanSquaredError(Reduction reduction, std::int64_t size) : Loss(reduction, 0, size) {}

  std::string_view type() const override { return "mse"; }

  Json to_json() const override {
    return {{"type", type()}, {"reduction", losses::to_string(reduction())}};
  }

  double compute(std::span<const float> prediction, const TargetView& target,
                 std::span<float> gradient) const override {
    const double weight =
        reduction() == Reduction::kMean ? 1.0 / static_cast<double>(prediction.size()) : 1.0;
    const auto slope = static_cast<float>(2.0 * weight);
    double total = 0;
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      const double difference = static_cast<double>(prediction[i]) - target.values[i];
      total += difference * difference;
      if (!gradient.empty()) gradient[i] = slope * static_cast<float>(difference);
    }
    return total * weight;
  }
};

}  // namespace

Created create_mse(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<MeanSquaredError>(reduction, size);
}

}  // namespace muster::losses
