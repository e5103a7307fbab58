#include "core/train/batch.h"

#include <cstddef>
#include <string>

namespace muster {
namespace {

Error mismatch(const std::string& message) {
  return {ErrorCode::kInvalidArgument, message, "data_mismatch"};
}

Error shape_mismatch(const Shape& wanted, const Shape& found) {
  std::string message = "the model wants examples of shape " + to_string(wanted) +
                        ", the data has " + to_string(found);
  const Result<std::int64_t> size = element_count(wanted);
  const Result<std::int64_t> count = element_count(found);
  if (size && count && *size == *count) {
    message += "; set the model's \"input\" to " + to_string(found);
  }
  return mismatch(message);
}

}  // namespace

Status check_data_fits(const Graph& graph, const Dataset& data) {
  if (data.size() == 0) return {};
  const Loss& loss = graph.loss();
  const std::string name(loss.type());
  if (data.shape() != graph.input_shape()) {
    return shape_mismatch(graph.input_shape(), data.shape());
  }
  if (loss.wants_labels() && !data.has_labels()) {
    return mismatch("the loss " + name + " wants class labels, the data has values");
  }
  const std::int64_t targets = data.target_size();
  if (targets != loss.targets_per_example()) {
    return mismatch("the loss " + name + " wants " + std::to_string(loss.targets_per_example()) +
                    " targets an example, the data has " + std::to_string(targets));
  }
  const Loss::TargetRange range = loss.target_range();
  if (const auto found = data.find_target_outside(range.low, range.high)) {
    return mismatch("example " + std::to_string(found->example) + " has the target " +
                    describe(Json(found->value)) + ", the loss " + name + " wants " +
                    describe(Json(range.low)) + " to " + describe(Json(range.high)));
  }
  return {};
}

Batch::Batch(const Graph& graph, std::int64_t max_batch, std::int64_t max_part)
    : example_size_(static_cast<std::size_t>(graph.input_size())),
      target_size_(static_cast<std::size_t>(graph.loss().targets_per_example())),
      labels_wanted_(graph.loss().wants_labels()),
      features_(static_cast<std::size_t>(max_part) * example_size_),
      labels_(labels_wanted_ ? static_cast<std::size_t>(max_batch) * target_size_ : 0),
      values_(labels_wanted_ ? 0 : static_cast<std::size_t>(max_batch) * target_size_) {}

void Batch::load(const Dataset& data, std::span<const std::int64_t> positions) {
  load_targets(data, positions);
  load_features(data, positions, 0, positions.size());
}

void Batch::load_targets(const Dataset& data, std::span<const std::int64_t> positions) {
  size_ = static_cast<std::int64_t>(positions.size());
  if (labels_wanted_) {
    data.copy_labels(positions, labels_);
  } else {
    data.copy_values(positions, values_);
  }
}

void Batch::load_features(const Dataset& data, std::span<const std::int64_t> positions,
                          std::size_t begin, std::size_t count) {
  loaded_ = count;
  data.copy_features(positions.subspan(begin, count), features_);
}

std::span<const float> Batch::features() const {
  return std::span(features_).first(loaded_ * example_size_);
}

TargetView Batch::target(std::size_t begin, std::size_t count) const {
  begin *= target_size_;
  count *= target_size_;
  if (labels_wanted_) return {.labels = std::span(labels_).subspan(begin, count), .values = {}};
  return {.labels = {}, .values = std::span(values_).subspan(begin, count)};
}

}  // namespace muster
