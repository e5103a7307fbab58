#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/graph/losses/exponential.h"
#include "core/graph/losses/lane_sum.h"
#include "core/graph/losses/registry.h"

namespace muster::losses {
namespace {

// Cross-entropy of softmax over the last dimension and a label for each row of it, with p =
// softmax(x), label y, C classes: terms
//   -(1 - s) w_y log p_y - s / C sum_c w_c log p_c.
// "mean" divides by the sum of w_y over the rows: by their number without weights
// (torch.nn.CrossEntropyLoss; smoothing after Szegedy et al. 2016).
//   label_smoothing  s, 0 (default) to 0.999
//   class_weights    w, a list of a number for each class, from 0; default all 1
// The row's largest logit is subtracted first, so no finite input overflows. Exponentials are taken
// once, in place of the gradient or, without one, in pieces on the stack.
class SoftmaxCrossEntropy final : public Loss {
 public:
  SoftmaxCrossEntropy(Reduction reduction, std::int64_t classes, std::int64_t rows,
                      double smoothing, std::vector<double> weights)
      : Loss(reduction, classes, rows),
        classes_(static_cast<std::size_t>(classes)),
        smoothing_(smoothing),
        weights_(std::move(weights)),
        weight_sum_(lane_sum(classes_, [this](std::size_t c) { return weight(c); })) {}

  std::string_view type() const override { return "softmax_cross_entropy"; }

  Json to_json() const override {
    Json json{{"type", type()},
              {"reduction", losses::to_string(reduction())},
              {"label_smoothing", smoothing_}};
    if (!weights_.empty()) json["class_weights"] = weights_;
    return json;
  }

  TargetRange target_range() const override { return {0, static_cast<double>(num_classes() - 1)}; }

  double normaliser(const TargetView& target) const override {
    if (weights_.empty()) return static_cast<double>(target.labels.size());
    return lane_sum(target.labels.size(), [&](std::size_t row) {
      return weights_[static_cast<std::size_t>(target.labels[row])];
    });
  }

  std::optional<std::int64_t> count_correct(std::span<const float> prediction,
                                            const TargetView& target) const override {
    std::int64_t correct = 0;
    const float* x = prediction.data();
    for (const std::int32_t label : target.labels) {
      correct += is_largest(x, static_cast<std::size_t>(label)) ? 1 : 0;
      x += classes_;
    }
    return correct;
  }

 protected:
  double sum_terms(std::span<const float> prediction, const TargetView& target, double scale,
                   std::span<float> gradient) const override {
    const std::size_t rows = target.labels.size();
    std::array<float, kPiece> stack;
    const bool piecewise = gradient.empty() && classes_ > kPiece;
    const std::size_t rows_at_once = std::max<std::size_t>(1, kPiece / classes_);
    double total = 0;
    for (std::size_t row = 0; row < rows; row += rows_at_once) {
      const std::size_t count = std::min(rows_at_once, rows - row);
      const float* x = prediction.data() + row * classes_;
      const std::int32_t* labels = target.labels.data() + row;
      if (piecewise) {
        total += term(x, static_cast<std::size_t>(*labels), largest(x), sum_in_pieces(x, stack));
      } else {
        float* e = gradient.empty() ? stack.data() : gradient.data() + row * classes_;
        total += block(x, labels, count, e, scale, !gradient.empty());
      }
      // An infinite logit may leave a finite sum.
      if (!all_finite(x, count * classes_)) total = std::numeric_limits<double>::quiet_NaN();
    }
    return total;
  }

 private:
  // Floats worked on at a time: they stay in the nearest cache.
  static constexpr std::size_t kPiece = 2048;
  static_assert(kPiece % LaneSum::kLanes == 0);

  static bool all_finite(const float* x, std::size_t count) {
    constexpr std::uint32_t kExponent = 0x7F800000U;
    std::uint32_t found = 0;
    for (std::size_t j = 0; j < count; ++j) {
      found |= (std::bit_cast<std::uint32_t>(x[j]) & kExponent) == kExponent ? 1U : 0U;
    }
    return found == 0;
  }

  double weight(std::size_t c) const { return weights_.empty() ? 1.0 : weights_[c]; }

  float largest(const float* x) const {
    constexpr std::size_t kLanes = LaneSum::kLanes;
    std::array<float, kLanes> lanes;
    lanes.fill(x[0]);
    std::size_t j = 0;
    for (; j + kLanes <= classes_; j += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = x[j + lane] > lanes[lane] ? x[j + lane] : lanes[lane];
      }
    }
    float value = x[0];
    for (; j < classes_; ++j) value = x[j] > value ? x[j] : value;
    for (const float lane : lanes) value = lane > value ? lane : value;
    return value;
  }

  // Whether no logit before the label's is as large and none after it larger; false for NaN.
  bool is_largest(const float* x, std::size_t label) const {
    const float own = x[label];
    std::uint32_t beaten = std::isnan(own) ? 1U : 0U;
    for (std::size_t j = 0; j < label; ++j) beaten |= x[j] < own ? 0U : 1U;
    for (std::size_t j = label + 1; j < classes_; ++j) beaten |= x[j] <= own ? 0U : 1U;
    return beaten == 0;
  }

  // `count` rows: their terms and, into `e` when `with_gradient`, their derivatives. `e` is work
  // space otherwise.
  double block(const float* x, const std::int32_t* labels, std::size_t count, float* e,
               double scale, bool with_gradient) const {
    std::array<float, kPiece / 2> tops;  // two classes at least
    for (std::size_t row = 0; row < count; ++row) {
      const float top = tops[row] = largest(x + row * classes_);
      for (std::size_t j = row * classes_; j < (row + 1) * classes_; ++j) e[j] = x[j] - top;
    }
    for (std::size_t j = 0; j < count * classes_; ++j) e[j] = exp_of_non_positive(e[j]);
    double total = 0;
    for (std::size_t row = 0; row < count; ++row, x += classes_, e += classes_) {
      const auto label = static_cast<std::size_t>(labels[row]);
      const double sum = lane_sum(classes_, [e](std::size_t j) { return double{e[j]}; });
      total += term(x, label, tops[row], sum);
      if (with_gradient) differentiate(e, label, sum, scale);
    }
    return total;
  }

  double sum_in_pieces(const float* x, std::array<float, kPiece>& e) const {
    const float top = largest(x);
    LaneSum sum;
    for (std::size_t from = 0; from < classes_; from += kPiece) {
      const std::size_t count = std::min(kPiece, classes_ - from);
      for (std::size_t j = 0; j < count; ++j) e[j] = exp_of_non_positive(x[from + j] - top);
      sum.add(count, [&](std::size_t j) { return double{e[j]}; });
    }
    return sum.total();
  }

  // sum: of exp(x_c - top).
  double term(const float* x, std::size_t label, float top, double sum) const {
    const double log_sum = std::log(sum);
    double loss = (1.0 - smoothing_) * weight(label) * (log_sum - (double{x[label]} - top));
    if (smoothing_ > 0) {
      const double shifted = lane_sum(
          classes_, [&](std::size_t c) { return weight(c) * (double{x[c]} - double{top}); });
      loss += smoothing_ / static_cast<double>(classes_) * (weight_sum_ * log_sum - shifted);
    }
    return loss;
  }

  // From e = exp(x - top) to the derivative by x, in place:
  //   p_c ((1 - s) w_y + s / C sum w) - s / C w_c - [c = y] (1 - s) w_y.
  void differentiate(float* e, std::size_t label, double sum, double scale) const {
    const double on = scale * (1.0 - smoothing_) * weight(label);
    const double off = scale * smoothing_ / static_cast<double>(classes_);
    const auto factor = static_cast<float>((on + off * weight_sum_) / sum);
    if (smoothing_ == 0) {
      for (std::size_t c = 0; c < classes_; ++c) e[c] *= factor;
    } else if (weights_.empty()) {
      const auto constant = static_cast<float>(off);
      for (std::size_t c = 0; c < classes_; ++c) e[c] = e[c] * factor - constant;
    } else {
      for (std::size_t c = 0; c < classes_; ++c) {
        e[c] = e[c] * factor - static_cast<float>(off * weights_[c]);
      }
    }
    e[label] -= static_cast<float>(on);
  }

  std::size_t classes_;
  double smoothing_;
  std::vector<double> weights_;  // one for each class; empty: all 1
  double weight_sum_;
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
  const std::int64_t classes = prediction.back();
  std::vector<double> weights = read_weights(attributes, "class_weights", classes);
  MUSTER_TRY(const std::int64_t size, element_count(prediction));
  return std::make_unique<SoftmaxCrossEntropy>(reduction, classes, size / classes, smoothing,
                                               std::move(weights));
}

}  // namespace muster::losses
