#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/exact_math.h"
#include "core/graph/losses/registry.h"

namespace muster::losses {
namespace {

// Binary cross-entropy of sigmoid(x) and targets t in [0, 1]: terms
//   p t log(1 + e^-x) + (1 - t) log(1 + e^x),
// each logarithm as max(+-x, 0) + log(1 + e^-|x|), which never overflows. "mean" divides by the
// number of elements, whatever p is (torch.nn.BCEWithLogitsLoss).
//   pos_weight  p, a number from 0 for all outputs or a list of one for each; default 1
class BinaryCrossEntropy final : public Loss {
 public:
  BinaryCrossEntropy(Reduction reduction, std::int64_t size, std::vector<double> pos_weights)
      : Loss(reduction, 0, size), pos_weights_(std::move(pos_weights)) {}

  std::string_view type() const override { return "bce_with_logits"; }
  Task task() const override { return Task::kBinary; }

  Json to_json() const override {
    Json json{{"type", type()}, {"reduction", losses::to_string(reduction())}};
    if (pos_weights_.size() > 1) {
      json["pos_weight"] = pos_weights_;
    } else if (pos_weights_.front() != 1.0) {
      json["pos_weight"] = pos_weights_.front();
    }
    return json;
  }

  TargetRange target_range() const override { return {0, 1}; }

  std::optional<std::int64_t> count_correct(std::span<const float> prediction,
                                            const TargetView& target) const override {
    std::int64_t correct = 0;
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      correct += (prediction[i] > 0) == (target.values[i] > 0.5F) ? 1 : 0;
    }
    return correct;
  }

 protected:
  double sum_terms(std::span<const float> prediction, const TargetView& target, double scale,
                   std::span<float> gradient) const override {
    double total = 0;
    std::size_t output = 0;  // of the weights
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      const double x = prediction[i];
      const double positive = pos_weights_[output] * target.values[i];
      const double negative = 1.0 - target.values[i];
      if (++output == pos_weights_.size()) output = 0;
      const double e = exact_exp(-std::abs(x));
      const double log_sum = std::log1p(e);
      // Comparisons that leave a NaN where it is.
      total += positive * ((x > 0 ? 0.0 : -x) + log_sum) + negative * ((x < 0 ? 0.0 : x) + log_sum);
      if (!gradient.empty()) {
        const double small = e / (1.0 + e);  // of sigmoid(x) and 1 - sigmoid(x)
        const double large = 1.0 / (1.0 + e);
        const double slope =
            negative * (x >= 0 ? large : small) - positive * (x >= 0 ? small : large);
        gradient[i] = static_cast<float>(slope * scale);
      }
    }
    return total;
  }

 private:
  std::vector<double> pos_weights_;  // one for all outputs, or one for each
};

}  // namespace

Created create_bce_with_logits(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  std::vector<double> weights;
  const Json* given = attributes.find("pos_weight");
  if (given != nullptr && given->is_array()) {
    weights = read_weights(attributes, "pos_weight", size);
  } else {
    weights.push_back(
        attributes.number("pos_weight", 1.0, {0.0, std::numeric_limits<float>::max()}));
  }
  return std::make_unique<BinaryCrossEntropy>(reduction, size, std::move(weights));
}

}  // namespace muster::losses
