#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tensor/state.h"

namespace muster {

// What a batch should have given: class labels or values, whichever the loss wants; the other is
// empty.
struct TargetView {
  std::span<const std::int32_t> labels;
  std::span<const float> values;
};

// A loss function with its attributes, for predictions of a given shape (without the batch): a sum
// of terms, one a target, that "mean" divides by the batch's normaliser. Each loss states its terms
// and its normaliser in its own file (core/graph/losses).
//
// Owned by the graph, immutable, callable from any thread; computing allocates nothing, and the
// order in which terms are added is fixed by the sizes.
//
// A whole batch goes through `compute`. A batch in parts (micro-batches whose gradients add up)
// goes through `compute_part`, which needs the normaliser of the whole:
//
//   double whole = 0;
//   for (const TargetView& part : targets) whole += loss.normaliser(part);
//   for (...) value += loss.compute_part(predictions[i], targets[i], whole, gradients[i]);
//
// The gradients are then those that `compute` gives for the whole batch, and `value` its loss, for
// either reduction.
class Loss {
 public:
  enum class Reduction { kMean, kSum };
  // What is predicted; decides which metrics fit.
  enum class Task {
    kClasses,  // a class, from a row of logits
    kBinary,   // yes or no, from a logit each
    kValues,   // numbers
  };

  virtual ~Loss() = default;

  virtual std::string_view type() const = 0;
  // With defaults written out, "type" included.
  virtual Json to_json() const = 0;

  Reduction reduction() const { return reduction_; }
  virtual Task task() const { return wants_labels() ? Task::kClasses : Task::kValues; }
  // True when targets are class labels from 0 to num_classes() - 1, false when they are values.
  bool wants_labels() const { return num_classes_ > 0; }
  std::int64_t num_classes() const { return num_classes_; }
  std::int64_t targets_per_example() const { return targets_per_example_; }

  // What targets must lie in.
  struct TargetRange {
    double low = std::numeric_limits<double>::lowest();
    double high = std::numeric_limits<double>::max();
  };
  virtual TargetRange target_range() const { return {}; }

  // The loss of a batch and, where `gradient` is not empty, its derivative by `prediction`.
  //   prediction  [batch, ...shape]; NaN and infinity give a loss that is not finite
  //   target      targets_per_example() for each example; labels must be in range
  double compute(std::span<const float> prediction, const TargetView& target,
                 std::span<float> gradient) const {
    return compute_part(prediction, target, normaliser(target), gradient);
  }

  // What kMean divides the sum of these targets' terms by, whatever reduction() is: their number,
  // unless the loss weighs them. Adds up over the parts of a batch. O(1), or one look at each
  // label.
  virtual double normaliser(const TargetView& target) const {
    return static_cast<double>(target.labels.size() + target.values.size());
  }

  // What a part of a batch adds to the batch's loss and, where `gradient` is not empty, its
  // derivative by the part's predictions.
  //   whole  sum of normaliser() over the batch's parts; kSum does not look at it. Where it is 0
  //          (all labels have weight 0) the loss and its derivative are 0.
  double compute_part(std::span<const float> prediction, const TargetView& target, double whole,
                      std::span<float> gradient) const {
    const double scale = reduction_ == Reduction::kSum ? 1.0 : whole > 0 ? 1.0 / whole : 0.0;
    return sum_terms(prediction, target, scale, gradient) * scale;
  }

  // How many of the batch's targets are predicted right (the largest logit; the right side of 1/2);
  // nothing for a loss that knows no right and wrong.
  virtual std::optional<std::int64_t> count_correct(std::span<const float> /*prediction*/,
                                                    const TargetView& /*target*/) const {
    return std::nullopt;
  }

 protected:
  Loss(Reduction reduction, std::int64_t num_classes, std::int64_t targets_per_example)
      : reduction_(reduction),
        num_classes_(num_classes),
        targets_per_example_(targets_per_example) {}

  // The sum of the terms; writes `scale` times its derivative where `gradient` is not empty. The
  // sum does not depend on whether there is a gradient.
  virtual double sum_terms(std::span<const float> prediction, const TargetView& target,
                           double scale, std::span<float> gradient) const = 0;

 private:
  Reduction reduction_;
  std::int64_t num_classes_;
  std::int64_t targets_per_example_;
};

// One line of the table of losses.
struct LossKind {
  std::string_view name;
  // Reads the attributes it knows; the caller refuses the rest.
  Result<std::unique_ptr<Loss>> (*create)(JsonObject& attributes, const Shape& prediction);
};

std::span<const LossKind> builtin_losses();

// Reads {"type": "softmax_cross_entropy", "reduction": "mean", "label_smoothing": 0}. "type" is one
// of:
//   softmax_cross_entropy  label_smoothing, class_weights
//   bce_with_logits        pos_weight
//   mse, mae
//   huber                  delta
// and each has "reduction": "mean" (default) or "sum". The attributes are described in the losses'
// files.
// Errors: kInvalidArgument with the path `where`; an unknown type lists the known ones.
Result<std::unique_ptr<Loss>> loss_from_json(const Json& json, const std::string& where,
                                             const Shape& prediction);

}  // namespace muster
