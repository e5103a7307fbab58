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

// A loss function with its attributes, for predictions of a given shape (without the batch).
// Owned by the graph, immutable, callable from any thread; computing allocates nothing.
class Loss {
 public:
  enum class Reduction { kMean, kSum };

  virtual ~Loss() = default;

  virtual std::string_view type() const = 0;
  // With defaults written out, "type" included.
  virtual Json to_json() const = 0;

  Reduction reduction() const { return reduction_; }
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
  virtual double compute(std::span<const float> prediction, const TargetView& target,
                         std::span<float> gradient) const = 0;

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

// Reads {"type": "softmax_cross_entropy", "reduction": "mean", "label_smoothing": 0}.
// Errors: kInvalidArgument with the path `where`; an unknown type lists the known ones.
Result<std::unique_ptr<Loss>> loss_from_json(const Json& json, const std::string& where,
                                             const Shape& prediction);

}  // namespace muster
