#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/train/dataset.h"

namespace muster {

// Whether a graph can be trained on, or evaluated with, these examples.
// Errors: kInvalidArgument, reason "data_mismatch", saying what the model wants and what the data
// is.
Status check_data_fits(const Graph& graph, const Dataset& data);

// A batch as a graph takes it, in memory that is used again for every batch.
class Batch {
 public:
  // The data fits the graph, and no batch is over `max_batch`.
  Batch(const Graph& graph, std::int64_t max_batch);

  void load(const Dataset& data, std::span<const std::int64_t> positions);

  std::int64_t size() const { return size_; }
  std::span<const float> features() const;
  TargetView target() const;

 private:
  std::size_t example_size_;
  std::size_t target_size_;
  bool labels_wanted_;
  std::int64_t size_ = 0;
  std::vector<float> features_;
  std::vector<std::int32_t> labels_;
  std::vector<float> values_;
};

}  // namespace muster
