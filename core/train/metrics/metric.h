#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/loss.h"

namespace muster {

// The form of a loss's predictions and targets: what a metric needs to know of a model.
struct PredictionForm {
  Loss::Task task = Loss::Task::kValues;
  std::int64_t classes = 0;  // logits in a row, for kClasses
  std::int64_t targets = 1;  // for each example

  bool operator==(const PredictionForm&) const = default;
};

PredictionForm prediction_form(const Loss& loss);

// One figure about a model's predictions, gathered over batches.
//
// Made by metrics_from_json (core/train/metrics/metric_set.h) for one form of predictions. Order of
// calls: `add` and `merge` any number of times in any order; `value` whenever it is wanted. One
// thread at a time: others gather in a `fresh` one each, which is merged at the end.
class Metric {
 public:
  virtual ~Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  // The key of its value among results: "accuracy", "top3_accuracy".
  const std::string& name() const { return name_; }
  const PredictionForm& form() const { return form_; }
  // With defaults written out: {"type": "top_k", "k": 3}.
  virtual Json to_json() const = 0;

  // Adds a batch.
  //   prediction  [batch, ...shape], as Loss::compute takes it
  //   target      as Loss::compute takes it
  void add(std::span<const float> prediction, const TargetView& target);

  // Adds what another one of the same name and form has gathered. Figures from counts and ranks are
  // then the same as if all batches had been added here; sums of errors are up to rounding.
  // Errors: kInvalidArgument for another name or form; this one is then unchanged.
  Status merge(const Metric& other);

  // Nothing where there is nothing to measure: no examples, or (auc) examples of one kind only. NaN
  // when a prediction was not finite.
  std::optional<double> value() const;

  // The same metric with nothing added.
  virtual std::unique_ptr<Metric> fresh() const = 0;

  // Memory that gathering takes for each example.
  virtual std::int64_t bytes_per_example() const { return 0; }

 protected:
  Metric(std::string name, const PredictionForm& form) : name_(std::move(name)), form_(form) {}

 private:
  // All predictions are finite.
  virtual void gather(std::span<const float> prediction, const TargetView& target) = 0;
  // `other` has the same name and form, and so the same type.
  virtual void absorb(const Metric& other) = 0;
  virtual std::optional<double> measure() const = 0;

  std::string name_;
  PredictionForm form_;
  bool finite_ = true;
};

}  // namespace muster
