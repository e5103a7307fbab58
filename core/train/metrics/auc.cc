#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/train/metrics/registry.h"

namespace muster::metrics {
namespace {

// A score with whether its target is positive.
using Scored = std::pair<double, bool>;

// The probability that a positive scores over a negative, equals counted half (the statistic of
// Mann and Whitney 1947); exact in whole numbers but for the last division. Nothing without both
// kinds.
std::optional<double> area(std::vector<Scored>& scored) {
  std::sort(scored.begin(), scored.end());
  std::uint64_t negatives = 0;  // so far
  std::uint64_t positives = 0;
  std::uint64_t twice_won = 0;  // pairs, and a half more for each tie
  for (std::size_t from = 0; from < scored.size();) {
    std::size_t to = from;
    while (to < scored.size() && scored[to].first == scored[from].first) ++to;
    std::uint64_t group_positives = 0;
    for (std::size_t i = from; i < to; ++i) group_positives += scored[i].second ? 1 : 0;
    const std::uint64_t group_negatives = to - from - group_positives;
    twice_won += group_positives * (2 * negatives + group_negatives);
    positives += group_positives;
    negatives += group_negatives;
    from = to;
  }
  if (positives == 0 || negatives == 0) return std::nullopt;
  return static_cast<double>(twice_won) / 2.0 /
         (static_cast<double>(positives) * static_cast<double>(negatives));
}

// The area under the ROC curve, exact, of the scores of
//   a logit           the logit itself
//   two classes       the second's logit less the first's
//   more classes      each class against the rest by log softmax: the mean over the classes
//                     ("one-vs-rest macro" of scikit-learn)
//   several logits    each output by itself: the mean over the outputs
// A class or output whose targets are all alike has no curve and is left out of the mean; there is
// no value when that leaves none. Memory: 9 bytes for each score.
class Auc final : public Metric {
 public:
  explicit Auc(const PredictionForm& form)
      : Metric("auc", form), columns_(static_cast<std::size_t>(columns_of(form))) {}

  Json to_json() const override { return {{"type", "auc"}}; }
  std::unique_ptr<Metric> fresh() const override { return std::make_unique<Auc>(form()); }

  std::int64_t bytes_per_example() const override {
    const std::int64_t rows = form().task == Loss::Task::kClasses ? form().targets : 1;
    return rows * static_cast<std::int64_t>(columns_) *
           static_cast<std::int64_t>(sizeof(double) + sizeof(char));
  }

 private:
  static std::int64_t columns_of(const PredictionForm& form) {
    if (form.task == Loss::Task::kBinary) return form.targets;
    return form.classes == 2 ? 1 : form.classes;
  }

  void gather(std::span<const float> prediction, const TargetView& target) override {
    const auto classes = static_cast<std::size_t>(form().classes);
    for (std::size_t row = 0; row < target.labels.size(); ++row) {
      gather_row(prediction.subspan(row * classes, classes), target.labels[row]);
    }
    for (std::size_t i = 0; i < target.values.size(); ++i) {
      keep(prediction[i], target_positive(target.values[i]));
    }
  }

  void gather_row(std::span<const float> logits, std::int32_t label) {
    if (logits.size() == 2) {
      keep(static_cast<double>(logits[1]) - static_cast<double>(logits[0]), label == 1);
      return;
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - top);
    const double log_sum = std::log(sum);
    for (std::size_t c = 0; c < logits.size(); ++c) {
      keep(logits[c] - top - log_sum, static_cast<std::size_t>(label) == c);
    }
  }

  void keep(double score, bool positive) {
    scores_.push_back(score);
    positive_.push_back(positive ? 1 : 0);
  }

  void absorb(const Metric& other) override {
    const auto& same = static_cast<const Auc&>(other);
    // By index: `other` may be this one.
    const std::size_t count = same.scores_.size();
    for (std::size_t i = 0; i < count; ++i) keep(same.scores_[i], same.positive_[i] != 0);
  }

  std::optional<double> measure() const override {
    double sum = 0;
    int curves = 0;
    std::vector<Scored> scored;
    for (std::size_t column = 0; column < columns_; ++column) {
      scored.clear();
      for (std::size_t i = column; i < scores_.size(); i += columns_) {
        scored.emplace_back(scores_[i], positive_[i] != 0);
      }
      if (const std::optional<double> one = area(scored)) {
        sum += *one;
        ++curves;
      }
    }
    if (curves == 0) return std::nullopt;
    return sum / curves;
  }

  std::size_t columns_;
  std::vector<double> scores_;  // [rows, columns]
  std::vector<char> positive_;  // the same
};

}  // namespace

Created create_auc(JsonObject& /*attributes*/, const PredictionForm& form) {
  if (form.task == Loss::Task::kValues) return unfit("classes, or yes or no", form);
  return std::make_unique<Auc>(form);
}

}  // namespace muster::metrics
