#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/tensor/state.h"

namespace muster {

// The rows behind one or more data sets; plain data, checked by Dataset::create.
struct DatasetRows {
  Shape shape;  // of one example
  // Features, in one of three forms:
  std::vector<std::uint8_t> bytes;   // which stand for byte / byte_divisor
  std::vector<std::uint16_t> words;  // whole numbers, as token ids are
  std::vector<float> floats;
  // Targets, target_size for each example, in one of two forms:
  std::vector<std::int32_t> labels;  // >= 0
  std::vector<float> values;
  std::int64_t target_size = 1;
  float byte_divisor = 255;  // 1: bytes are whole numbers
  // More than 0: `bytes` are one sequence, and the examples are its windows. Example i has the
  // `shape`, [T], of bytes from i * window_stride on, and T labels: at each position the byte that
  // follows it. There are as many examples as have all their bytes; byte_divisor is 1, labels and
  // values are empty, target_size is T.
  std::int64_t window_stride = 0;
};

// Examples with their targets, or some of them: a view that shares the rows, which never change.
// Cheap to copy; any thread may read it.
class Dataset {
 public:
  Dataset() = default;  // no examples

  // Errors: kInvalidArgument, reason "bad_data", when the lengths do not fit together, a label is
  // negative or the divisor is not a finite number over 0.
  static Result<Dataset> create(DatasetRows rows);

  std::int64_t size() const;
  const Shape& shape() const;
  std::int64_t example_size() const { return example_size_; }
  bool has_labels() const;
  // Targets of one example, labels as well as values; 0 without rows.
  std::int64_t target_size() const;

  // A target of an example, for error messages.
  struct Target {
    std::int64_t example = 0;
    std::int64_t position = 0;  // among the targets of the example
    double value = 0;
  };
  // The first target (label or value) outside [low, high] or NaN.
  std::optional<Target> find_target_outside(double low, double high) const;
  // SHA-256 over shape, features and targets in the order of this view: equal for equal examples,
  // however they are stored. Reads all of them.
  Digest digest() const;
  // Labels in order, target_size() for each example; empty when targets are values.
  std::vector<std::int32_t> labels() const;

  // The examples at these positions of this view, in that order; shares the rows.
  Dataset subset(std::span<const std::int64_t> positions) const;

  // The same examples over rows of their own, so that what this view does not use can be freed;
  // shares the rows as before where a copy would be no smaller (windows that overlap).
  Dataset compacted() const;

  // A copy of the rows that this view uses, in its order.
  DatasetRows own_rows() const;

  // Copies examples out, as floats; `out` has positions.size() * example_size() places. Allocates
  // nothing, like the two below.
  void copy_features(std::span<const std::int64_t> positions, std::span<float> out) const;
  // positions.size() * target_size() places; only with labels.
  void copy_labels(std::span<const std::int64_t> positions, std::span<std::int32_t> out) const;
  // The same number of places; labels become numbers.
  void copy_values(std::span<const std::int64_t> positions, std::span<float> out) const;

 private:
  std::size_t row(std::int64_t position) const {
    return static_cast<std::size_t>(whole_ ? position
                                           : indices_[static_cast<std::size_t>(position)]);
  }
  bool windows() const { return rows_ != nullptr && rows_->window_stride > 0; }
  // Where the features of a row begin.
  std::size_t begin_of(std::size_t row) const { return row * static_cast<std::size_t>(step_); }
  double target_at(std::size_t row, std::size_t position) const;

  // Shared, because views of one file outlive each other in any order.
  std::shared_ptr<const DatasetRows> rows_;
  std::int64_t example_size_ = 0;
  std::int64_t step_ = 0;  // features from one row's begin to the next one's
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
