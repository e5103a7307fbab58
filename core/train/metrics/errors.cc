#include <cmath>
#include <cstddef>

#include "core/train/metrics/registry.h"

namespace muster::metrics {
namespace {

// Over all predicted numbers x with targets t: "rmse", sqrt(mean (x - t)^2), or "mae", mean |x -
// t|.
class ErrorOfNumbers final : public Metric {
 public:
  ErrorOfNumbers(bool squared, const PredictionForm& form)
      : Metric(squared ? "rmse" : "mae", form), squared_(squared) {}

  Json to_json() const override { return {{"type", name()}}; }
  std::unique_ptr<Metric> fresh() const override {
    return std::make_unique<ErrorOfNumbers>(squared_, form());
  }

 private:
  void gather(std::span<const float> prediction, const TargetView& target) override {
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      const double difference =
          static_cast<double>(prediction[i]) - static_cast<double>(target.values[i]);
      sum_ += squared_ ? difference * difference : std::abs(difference);
    }
    count_ += static_cast<std::int64_t>(prediction.size());
  }

  void absorb(const Metric& other) override {
    const auto& same = static_cast<const ErrorOfNumbers&>(other);
    sum_ += same.sum_;
    count_ += same.count_;
  }

  std::optional<double> measure() const override {
    if (count_ == 0) return std::nullopt;
    const double mean = sum_ / static_cast<double>(count_);
    return squared_ ? std::sqrt(mean) : mean;
  }

  bool squared_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

Created create(bool squared, const PredictionForm& form) {
  if (form.task != Loss::Task::kValues) return unfit("numbers", form);
  return std::make_unique<ErrorOfNumbers>(squared, form);
}

}  // namespace

Created create_rmse(JsonObject& /*attributes*/, const PredictionForm& form) {
  return create(true, form);
}

Created create_mae(JsonObject& /*attributes*/, const PredictionForm& form) {
  return create(false, form);
}

}  // namespace muster::metrics
