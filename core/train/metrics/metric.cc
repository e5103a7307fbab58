#include "core/train/metrics/metric.h"

#include <limits>

#include "core/tensor/state.h"

namespace muster {

PredictionForm prediction_form(const Loss& loss) {
  return {
      .task = loss.task(), .classes = loss.num_classes(), .targets = loss.targets_per_example()};
}

void Metric::add(std::span<const float> prediction, const TargetView& target) {
  if (!finite_) return;
  if (find_non_finite(prediction) >= 0) {
    finite_ = false;
    return;
  }
  gather(prediction, target);
}

Status Metric::merge(const Metric& other) {
  if (other.name_ != name_ || other.form_ != form_) {
    return Error{ErrorCode::kInvalidArgument,
                 "merge metric " + name_ + ": the other one is " + other.name_ +
                     (other.name_ == name_ ? " of a model with other predictions" : "")};
  }
  finite_ = finite_ && other.finite_;
  absorb(other);
  return {};
}

std::optional<double> Metric::value() const {
  if (!finite_) return std::numeric_limits<double>::quiet_NaN();
  return measure();
}

}  // namespace muster
