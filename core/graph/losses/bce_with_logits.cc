#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/graph/losses/registry.h"

namespace muster::losses {
namespace {

// Binary cross-entropy of sigmoid(x) and targets t in [0, 1], as max(x, 0) - x t + log(1 +
// exp(-|x|)), which never overflows; "mean" divides by the number of elements.
class BinaryCrossEntropy final : public Loss {
 public:
  BinaryCrossEntropy(Reduction reduction, std::int64_t size) : Loss(reduction, 0, size) {}

  std::string_view type() const override { return "bce_with_logits"; }

  Json to_json() const override {
    return {{"type", type()}, {"reduction", losses::to_string(reduction())}};
  }

  TargetRange target_range() const override { return {0, 1}; }

  double compute(std::span<const float> prediction, const TargetView& target,
                 std::span<float> gradient) const override {
    const double weight =
        reduction() == Reduction::kMean ? 1.0 / static_cast<double>(prediction.size()) : 1.0;
    double total = 0;
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      const double x = prediction[i];
      const double t = target.values[i];
      const double e = std::exp(-std::abs(x));
      // A NaN must not be lost in the maximum.
      total += (x < 0 ? 0.0 : x) - x * t + std::log1p(e);
      if (!gradient.empty()) {
        gradient[i] = static_cast<float>(((x >= 0 ? 1.0 : e) / (1.0 + e) - t) * weight);
      }
    }
    return total * weight;
  }

  std::optional<std::int64_t> count_correct(std::span<const float> prediction,
                                            const TargetView& target) const override {
    std::int64_t correct = 0;
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      correct += (prediction[i] > 0) == (target.values[i] > 0.5F) ? 1 : 0;
    }
    return correct;
  }
};

}  // namespace

Created create_bce_with_logits(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<BinaryCrossEntropy>(reduction, size);
}

}  // namespace muster::losses
