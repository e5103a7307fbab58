#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/train/metrics/metric.h"

// A new metric is a file beside this with a `create` function, its declaration here and its line in
// registry.cc.
namespace muster::metrics {

using Created = Result<std::unique_ptr<Metric>>;

// Each reads the attributes it knows (the caller refuses the rest) and refuses a form of
// predictions that it says nothing about.
Created create_accuracy(JsonObject& attributes, const PredictionForm& form);
Created create_auc(JsonObject& attributes, const PredictionForm& form);
Created create_f1(JsonObject& attributes, const PredictionForm& form);
Created create_mae(JsonObject& attributes, const PredictionForm& form);
Created create_precision(JsonObject& attributes, const PredictionForm& form);
Created create_recall(JsonObject& attributes, const PredictionForm& form);
Created create_rmse(JsonObject& attributes, const PredictionForm& form);
Created create_top_k(JsonObject& attributes, const PredictionForm& form);

// One line of the table of metrics.
struct MetricKind {
  std::string_view name;
  Created (*create)(JsonObject& attributes, const PredictionForm& form);
};

std::span<const MetricKind> builtin_metrics();

// For a metric that does not fit: "wanted a loss that predicts classes, this one predicts numbers".
Error unfit(std::string_view wanted, const PredictionForm& form);

// The class that a row of logits stands for: the largest, of equals the first.
std::size_t predicted_class(std::span<const float> logits);
// The same for a logit, and for a target from 0 to 1.
inline bool predicted_positive(float logit) {
  return logit > 0.0F;
}
inline bool target_positive(float target) {
  return target > 0.5F;
}

}  // namespace muster::metrics
