#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/graph/losses/registry.h"

namespace muster::losses {
namespace {

// -sum_j t_j log softmax(x)_j over the last dimension, with t = (1 - s) one-hot + s / classes for a
// label smoothing of s (Szegedy et al. 2016). "mean" divides by the number of labels. The row's
// largest logit is subtracted first, so no finite input overflows.
class SoftmaxCrossEntropy final : public Loss {
 public:
  SoftmaxCrossEntropy(Reduction reduction, std::int64_t classes, std::int64_t rows,
                      double smoothing)
      : Loss(reduction, classes, rows),
        classes_(static_cast<std::size_t>(classes)),
        smoothing_(smoothing) {}

  std::string_view type() const override { return "softmax_cross_entropy"; }

  Json to_json() const override {
    return {{"type", type()},
            {"reduction", losses::to_string(reduction())},
            {"label_smoothing", smoothing_}};
  }

  TargetRange target_range() const override { return {0, static_cast<double>(num_classes() - 1)}; }

  double compute(std::span<const float> prediction, const TargetView& target,
                 std::span<float> gradient) const override {
    const std::size_t rows = prediction.size() / classes_;
    const double weight = reduction() == Reduction::kMean ? 1.0 / static_cast<double>(rows) : 1.0;
    const auto on = static_cast<float>((1.0 - smoothing_) * weight);
    const auto off = static_cast<float>(smoothing_ / static_cast<double>(classes_) * weight);
    double total = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* x = prediction.data() + row * classes_;
      const auto label = static_cast<std::size_t>(target.labels[row]);
      total += row_loss(x, label);
      if (!gradient.empty()) {
        row_gradient(x, gradient.data() + row * classes_, static_cast<float>(weight), off);
        gradient[row * classes_ + label] -= on;
      }
    }
    return total * weight;
  }

  std::optional<std::int64_t> count_correct(std::span<const float> prediction,
                                            const TargetView& target) const override {
    std::int64_t correct = 0;
    for (std::size_t row = 0; row < prediction.size() / classes_; ++row) {
      const float* x = prediction.data() + row * classes_;
      correct += std::max_element(x, x + classes_) - x == target.labels[row] ? 1 : 0;
    }
    return correct;
  }

 private:
  double row_loss(const float* x, std::size_t label) const {
    const float largest = *std::max_element(x, x + classes_);
    double sum = 0;
    double shifted = 0;
    for (std::size_t j = 0; j < classes_; ++j) {
      sum += std::exp(x[j] - largest);
      shifted += static_cast<double>(x[j]) - largest;
    }
    double loss = std::log(sum) - (1.0 - smoothing_) * (static_cast<double>(x[label]) - largest);
    if (smoothing_ > 0) loss -= smoothing_ / static_cast<double>(classes_) * shifted;
    return loss;
  }

  void row_gradient(const float* x, float* d, float weight, float off) const {
    const float largest = *std::max_element(x, x + classes_);
    double sum = 0;
    for (std::size_t j = 0; j < classes_; ++j) {
      d[j] = std::exp(x[j] - largest);
      sum += d[j];
    }
    const float scale = static_cast<float>(weight / sum);
    for (std::size_t j = 0; j < classes_; ++j) d[j] = d[j] * scale - off;
  }

  std::size_t classes_;
  double smoothing_;
};

}  // namespace

Created create_softmax_cross_entropy(JsonObject& attributes, const Shape& prediction) {
  const Loss::Reduction reduction = read_reduction(attributes);
  const double smoothing = attributes.number("label_smoothing", 0.0, {0.0, 0.999});
  if (prediction.empty() || prediction.back() < 2 || prediction.back() > (1 << 30)) {
    return Error{ErrorCode::kInvalidArgument,
                 "softmax_cross_entropy wants a last dimension of at least 2 classes, got " +
                     muster::to_string(prediction)};
  }
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<SoftmaxCrossEntropy>(reduction, prediction.back(),
                                               size / prediction.back(), smoothing);
}

}  // namespace muster::losses
