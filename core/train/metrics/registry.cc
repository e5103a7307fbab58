#include "core/train/metrics/registry.h"

#include <algorithm>
#include <array>

namespace muster::metrics {

std::span<const MetricKind> builtin_metrics() {
  static constexpr std::array kTable{
      MetricKind{"accuracy", create_accuracy},
      MetricKind{"auc", create_auc},
      MetricKind{"f1", create_f1},
      MetricKind{"mae", create_mae},
      MetricKind{"precision", create_precision},
      MetricKind{"recall", create_recall},
      MetricKind{"rmse", create_rmse},
      MetricKind{"top_k", create_top_k},
  };
  return kTable;
}

Error unfit(std::string_view wanted, const PredictionForm& form) {
  std::string found;
  switch (form.task) {
    case Loss::Task::kClasses:
      found = "one of " + std::to_string(form.classes) + " classes";
      break;
    case Loss::Task::kBinary:
      found = "yes or no from " + std::to_string(form.targets) +
              (form.targets == 1 ? " logit" : " logits");
      break;
    case Loss::Task::kValues:
      found = "numbers";
      break;
  }
  return {ErrorCode::kInvalidArgument,
          "wanted a loss that predicts " + std::string(wanted) + ", this one predicts " + found,
          "metric_unfit"};
}

std::size_t predicted_class(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace muster::metrics
