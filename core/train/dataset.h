#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/state.h"

namespace muster {

// The rows behind one or more data sets; plain data, checked by Dataset::create.
struct DatasetRows {
  Shape shape;                       // of one example
  std::vector<std::uint8_t> bytes;   // features as bytes, which stand for byte / 255; or
  std::vector<float> floats;         // features as they are; one of both is empty
  std::vector<std::int32_t> labels;  // one for each example, >= 0; or
  std::vector<float> values;         // target_size for each example; one of both is empty
  std::int64_t target_size = 1;
};

// Examples with their targets, or some of them: a view that shares the rows, which never change.
// Cheap to copy; any thread may read it.
class Dataset {
 public:
  Dataset() = default;  // no examples

  // Errors: kInvalidArgument when the lengths do not fit together or a label is negative.
  static Result<Dataset> create(DatasetRows rows);

  std::int64_t size() const;
  const Shape& shape() const;
  std::int64_t example_size() const { return example_size_; }
  bool has_labels() const;
  std::int64_t target_size() const;
  // The first example with a target (label or value) outside [low, high] or NaN; -1 when there is
  // none.
  std::int64_t find_target_outside(double low, double high) const;
  // The first target of an example, for error messages.
  double target(std::int64_t position) const;
  // Labels in order; empty when targets are values.
  std::vector<std::int32_t> labels() const;

  // The examples at these positions of this view, in that order; shares the rows.
  Dataset subset(std::span<const std::int64_t> positions) const;

  // The same examples over rows of their own: what this view does not use can be freed.
  Dataset compacted() const;

  // Copies examples out, as floats; `out` has positions.size() * example_size() places.
  void copy_features(std::span<const std::int64_t> positions, std::span<float> out) const;
  void copy_labels(std::span<const std::int64_t> positions, std::span<std::int32_t> out) const;
  // Labels become numbers.
  void copy_values(std::span<const std::int64_t> positions, std::span<float> out) const;

 private:
  std::size_t row(std::int64_t position) const {
    return static_cast<std::size_t>(whole_ ? position
                                           : indices_[static_cast<std::size_t>(position)]);
  }

  // Shared, because views of one file outlive each other in any order.
  std::shared_ptr<const DatasetRows> rows_;
  std::int64_t example_size_ = 0;
  std::int64_t num_rows_ = 0;
  bool whole_ = true;
  std::vector<std::int64_t> indices_;  // of rows; unused when whole
};

// What a device has: the part to train on and the part to evaluate on.
struct LocalData {
  Dataset train;
  Dataset holdout;
};

}  // namespace muster
