#include <cstddef>

#include "core/train/metrics/registry.h"

namespace muster::metrics {
namespace {

// A share of targets that are predicted right.
class Share : public Metric {
 public:
  using Metric::Metric;

 protected:
  void count(bool right) {
    right_ += right ? 1 : 0;
    ++all_;
  }

 private:
  void absorb(const Metric& other) override {
    const auto& same = static_cast<const Share&>(other);
    right_ += same.right_;
    all_ += same.all_;
  }

  std::optional<double> measure() const override {
    if (all_ == 0) return std::nullopt;
    return static_cast<double>(right_) / static_cast<double>(all_);
  }

  std::int64_t right_ = 0;
  std::int64_t all_ = 0;
};

// The share of labels that have the largest logit (of equals the first counts), or of logits on the
// right side of 0. With several targets an example each counts by itself.
class Accuracy final : public Share {
 public:
  explicit Accuracy(const PredictionForm& form) : Share("accuracy", form) {}

  Json to_json() const override { return {{"type", "accuracy"}}; }
  std::unique_ptr<Metric> fresh() const override { return std::make_unique<Accuracy>(form()); }

 private:
  void gather(std::span<const float> prediction, const TargetView& target) override {
    const auto classes = static_cast<std::size_t>(form().classes);
    for (std::size_t row = 0; row < target.labels.size(); ++row) {
      count(predicted_class(prediction.subspan(row * classes, classes)) ==
            static_cast<std::size_t>(target.labels[row]));
    }
    for (std::size_t i = 0; i < target.values.size(); ++i) {
      count(predicted_positive(prediction[i]) == target_positive(target.values[i]));
    }
  }
};

// The share of labels whose logit is among the k largest; of equal logits those of lower classes
// come first, so that k = 1 is accuracy.
//   k  1 to the number of classes
class TopK final : public Share {
 public:
  TopK(std::int64_t k, const PredictionForm& form)
      : Share("top" + std::to_string(k) + "_accuracy", form), k_(k) {}

  Json to_json() const override { return {{"type", "top_k"}, {"k", k_}}; }
  std::unique_ptr<Metric> fresh() const override { return std::make_unique<TopK>(k_, form()); }

 private:
  void gather(std::span<const float> prediction, const TargetView& target) override {
    const auto classes = static_cast<std::size_t>(form().classes);
    for (std::size_t row = 0; row < target.labels.size(); ++row) {
      const auto label = static_cast<std::size_t>(target.labels[row]);
      const std::span<const float> logits = prediction.subspan(row * classes, classes);
      std::int64_t before = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        before += logits[c] > logits[label] || (c < label && logits[c] == logits[label]) ? 1 : 0;
      }
      count(before < k_);
    }
  }

  std::int64_t k_;
};

}  // namespace

Created create_accuracy(JsonObject& /*attributes*/, const PredictionForm& form) {
  if (form.task == Loss::Task::kValues) return unfit("classes, or yes or no", form);
  return std::make_unique<Accuracy>(form);
}

Created create_top_k(JsonObject& attributes, const PredictionForm& form) {
  if (form.task != Loss::Task::kClasses) {
    attributes.find("k");
    return unfit("classes", form);
  }
  const std::int64_t k = attributes.integer("k", {1, form.classes});
  return std::make_unique<TopK>(k, form);
}

}  // namespace muster::metrics
