#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/graph.h"
#include "core/train/local_trainer.h"
#include "core/train/metrics/metric.h"

namespace muster {

// Some metrics for one form of predictions, each under a name of its own, with what they have
// gathered so far. As a description (what `evaluate` takes) it is read only, from any thread; to
// gather, each evaluation has a `fresh` one. Movable.
class MetricSet {
 public:
  MetricSet() = default;  // no metrics

  bool empty() const { return metrics_.empty(); }
  std::span<const std::unique_ptr<Metric>> metrics() const { return metrics_; }
  // Reads back to an equal set.
  Json to_json() const;

  // See Metric.
  void add(std::span<const float> prediction, const TargetView& target);
  // Errors: kInvalidArgument when the other set has other metrics; this one is then unchanged.
  Status merge(const MetricSet& other);
  MetricSet fresh() const;
  std::int64_t bytes_per_example() const;

  // The values by name. One that has nothing to measure is left out; one that met a prediction that
  // is not finite is NaN.
  Metrics values() const;

  // Errors: kInvalidArgument, reason "metric_unfit", naming the metric, for predictions of another
  // form than it was made for.
  Status check_fits(const Loss& loss) const;

 private:
  friend Result<MetricSet> metrics_from_json(const Json& json, const std::string& where,
                                             const Loss& loss);
  std::vector<std::unique_ptr<Metric>> metrics_;
};

// Reads ["accuracy", {"type": "top_k", "k": 3}, "auc"]: names, or objects with attributes. The
// names, what they fit, and what they are called among results:
//
//   accuracy               classes; yes or no    accuracy
//   top_k                  classes               top3_accuracy    "k": 1 to the number of classes
//   precision, recall, f1  classes; yes or no    precision, recall, f1; macro_f1, micro_f1
//                                                "average": "binary", "macro", "micro"
//   auc                    classes; yes or no    auc
//   rmse, mae              numbers               rmse, mae
//
// Their files in core/train/metrics define them.
// Errors: kInvalidArgument with the path (`where`[1]), reason "bad_field" (an unknown name lists
// the known ones; over 32; twice the same) or "metric_unfit" (the metric says nothing about what
// this loss predicts).
Result<MetricSet> metrics_from_json(const Json& json, const std::string& where, const Loss& loss);
Result<MetricSet> metrics_from_json(const Json& json, const std::string& where, const Graph& graph);

// What is measured when nothing is asked for: accuracy, or rmse of numbers.
MetricSet default_metrics(const Loss& loss);

}  // namespace muster
