#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/train/data/dataset.h"

namespace muster {

// Whether a graph can be trained on, or evaluated with, these examples.
// Errors: kInvalidArgument, reason "data_mismatch", saying what the model wants and what the data
// is; and where only the shape of as many elements differs, how to mend it.
Status check_data_fits(const Graph& graph, const Dataset& data);

// A batch as a graph takes it, in memory that is used again for every batch. The targets of a whole
// batch are held at once, the features of a whole batch or of one part of it after another.
class Batch {
 public:
  // The data fits the graph, no batch is over `max_batch`, and no part of it over `max_part`.
  Batch(const Graph& graph, std::int64_t max_batch, std::int64_t max_part);
  Batch(const Graph& graph, std::int64_t max_batch) : Batch(graph, max_batch, max_batch) {}

  // A whole batch, of no more examples than a part may have.
  void load(const Dataset& data, std::span<const std::int64_t> positions);

  // The targets of a batch; then, any number of times, the features of a part of it: `count`
  // examples from example `begin` of the batch on.
  void load_targets(const Dataset& data, std::span<const std::int64_t> positions);
  void load_features(const Dataset& data, std::span<const std::int64_t> positions,
                     std::size_t begin, std::size_t count);

  std::int64_t size() const { return size_; }  // of the batch
  // Of what was loaded last.
  std::span<const float> features() const;
  TargetView target() const { return target(0, static_cast<std::size_t>(size_)); }
  TargetView target(std::size_t begin, std::size_t count) const;

 private:
  std::size_t example_size_;
  std::size_t target_size_;
  bool labels_wanted_;
  std::int64_t size_ = 0;
  std::size_t loaded_ = 0;  // examples with features
  std::vector<float> features_;
  std::vector<std::int32_t> labels_;
  std::vector<float> values_;
};

}  // namespace muster
