#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/train/metrics/registry.h"

namespace muster::metrics {
namespace {

enum class Figure { kPrecision, kRecall, kF1 };
enum class Average { kBinary, kMacro, kMicro };

std::string_view to_string(Figure figure) {
  if (figure == Figure::kPrecision) return "precision";
  return figure == Figure::kRecall ? "recall" : "f1";
}

std::string_view to_string(Average average) {
  if (average == Average::kBinary) return "binary";
  return average == Average::kMacro ? "macro" : "micro";
}

bool has_two_classes(const PredictionForm& form) {
  return form.task == Loss::Task::kClasses ? form.classes == 2 : form.targets == 1;
}

Average default_average(const PredictionForm& form) {
  return has_two_classes(form) ? Average::kBinary : Average::kMacro;
}

// Predictions of one class, or of one output.
struct Counts {
  std::int64_t right = 0;   // true positives
  std::int64_t wrong = 0;   // false positives
  std::int64_t missed = 0;  // false negatives
  bool operator==(const Counts&) const = default;

  void add(const Counts& other) {
    right += other.right;
    wrong += other.wrong;
    missed += other.missed;
  }

  void count(bool predicted, bool actual) {
    right += predicted && actual ? 1 : 0;
    wrong += predicted && !actual ? 1 : 0;
    missed += !predicted && actual ? 1 : 0;
  }

  // 0 / 0 is 0.
  double figure(Figure figure) const {
    std::int64_t part = right;
    std::int64_t whole = right + (figure == Figure::kPrecision ? wrong : missed);
    if (figure == Figure::kF1) {
      part = 2 * right;
      whole = 2 * right + wrong + missed;
    }
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

// Precision tp / (tp + fp), recall tp / (tp + fn) and F1 2 tp / (2 tp + fp + fn), as scikit-learn
// defines them with zero_division = 0: what would be 0 / 0 is 0. The class predicted is the one
// with the largest logit (of equals the first); a logit is a yes above 0.
//   average  "binary": of the class 1 of two, the default where there are two (two logits, or one
//            logit); "macro": the mean over the classes that occur among labels or predictions,
//            otherwise the default; "micro": over all classes' counts together
// With several logits that each say yes or no, macro is the mean over all of these outputs. The
// value is called "f1" with the default average and "micro_f1" or "macro_f1" with another.
class PrecisionRecall final : public Metric {
 public:
  PrecisionRecall(Figure figure, Average average, const PredictionForm& form)
      : Metric((average == default_average(form) ? "" : std::string(to_string(average)) + "_") +
                   std::string(to_string(figure)),
               form),
        figure_(figure),
        average_(average),
        of_classes_(form.task == Loss::Task::kClasses || form.targets == 1),
        counts_(static_cast<std::size_t>(form.task == Loss::Task::kClasses ? form.classes
                                         : of_classes_                     ? 2
                                                                           : form.targets)) {}

  Json to_json() const override {
    return {{"type", to_string(figure_)}, {"average", to_string(average_)}};
  }
  std::unique_ptr<Metric> fresh() const override {
    return std::make_unique<PrecisionRecall>(figure_, average_, form());
  }

 private:
  void gather(std::span<const float> prediction, const TargetView& target) override {
    examples_ += static_cast<std::int64_t>(target.labels.size() + target.values.size());
    const auto classes = static_cast<std::size_t>(form().classes);
    for (std::size_t row = 0; row < target.labels.size(); ++row) {
      count_class(predicted_class(prediction.subspan(row * classes, classes)),
                  static_cast<std::size_t>(target.labels[row]));
    }
    for (std::size_t i = 0; i < target.values.size(); ++i) {
      const bool predicted = predicted_positive(prediction[i]);
      const bool actual = target_positive(target.values[i]);
      if (of_classes_) {
        count_class(predicted ? 1 : 0, actual ? 1 : 0);
      } else {
        counts_[i % counts_.size()].count(predicted, actual);
      }
    }
  }

  void count_class(std::size_t predicted, std::size_t actual) {
    if (predicted == actual) {
      ++counts_[actual].right;
    } else {
      ++counts_[predicted].wrong;
      ++counts_[actual].missed;
    }
  }

  void absorb(const Metric& other) override {
    const auto& same = static_cast<const PrecisionRecall&>(other);
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i].add(same.counts_[i]);
    examples_ += same.examples_;
  }

  std::optional<double> measure() const override {
    if (examples_ == 0) return std::nullopt;
    if (average_ == Average::kBinary) return counts_[1].figure(figure_);
    Counts all;
    double sum = 0;
    std::int64_t present = 0;
    for (const Counts& each : counts_) {
      all.add(each);
      if (of_classes_ && each == Counts{}) continue;
      sum += each.figure(figure_);
      ++present;
    }
    return average_ == Average::kMicro ? all.figure(figure_) : sum / static_cast<double>(present);
  }

  Figure figure_;
  Average average_;
  bool of_classes_;  // of which one is right; else of outputs, each right or wrong
  std::vector<Counts> counts_;
  std::int64_t examples_ = 0;
};

Created create(Figure figure, JsonObject& attributes, const PredictionForm& form) {
  const std::string text =
      attributes.text("average", std::string(to_string(default_average(form))));
  if (form.task == Loss::Task::kValues) return unfit("classes, or yes or no", form);
  for (const Average average : {Average::kBinary, Average::kMacro, Average::kMicro}) {
    if (text != to_string(average)) continue;
    if (average == Average::kBinary && !has_two_classes(form)) {
      return unfit("one of 2 classes (for the average \"binary\")", form);
    }
    return std::make_unique<PrecisionRecall>(figure, average, form);
  }
  attributes.fail("average", describe(Json(text)) + " found, known are binary, macro, micro");
  return std::make_unique<PrecisionRecall>(figure, default_average(form), form);
}

}  // namespace

Created create_precision(JsonObject& attributes, const PredictionForm& form) {
  return create(Figure::kPrecision, attributes, form);
}

Created create_recall(JsonObject& attributes, const PredictionForm& form) {
  return create(Figure::kRecall, attributes, form);
}

Created create_f1(JsonObject& attributes, const PredictionForm& form) {
  return create(Figure::kF1, attributes, form);
}

}  // namespace muster::metrics
