#include "core/train/dataset.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster {
namespace {

Error bad_data(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "data set: " + message, "bad_data"};
}

}  // namespace

Result<Dataset> Dataset::create(DatasetRows rows) {
  MUSTER_TRY_IN("data set", const std::int64_t size, element_count(rows.shape));
  if (size < 1) return bad_data("an example of shape " + to_string(rows.shape) + " is empty");
  const std::size_t features = rows.bytes.size() + rows.floats.size();
  const std::size_t targets = rows.labels.size() + rows.values.size();
  if (rows.target_size < 1) return bad_data("a target has no elements");
  if (!rows.bytes.empty() && !rows.floats.empty()) return bad_data("features are given twice");
  if (!rows.labels.empty() && !rows.values.empty()) return bad_data("targets are given twice");
  const std::size_t count = features / static_cast<std::size_t>(size);
  const auto per_target = static_cast<std::size_t>(rows.labels.empty() ? rows.target_size : 1);
  if (count * static_cast<std::size_t>(size) != features || count * per_target != targets) {
    return bad_data(std::to_string(features) + " features of " + std::to_string(size) +
                    " an example and " + std::to_string(targets) + " targets of " +
                    std::to_string(per_target) + " an example do not fit together");
  }
  const auto negative = std::find_if(rows.labels.begin(), rows.labels.end(),
                                     [](std::int32_t label) { return label < 0; });
  if (negative != rows.labels.end()) {
    return bad_data("label " + std::to_string(*negative) + " of example " +
                    std::to_string(negative - rows.labels.begin()) + " is negative");
  }
  Dataset data;
  data.example_size_ = size;
  data.num_rows_ = static_cast<std::int64_t>(count);
  data.rows_ = std::make_shared<const DatasetRows>(std::move(rows));
  return data;
}

std::int64_t Dataset::size() const {
  return whole_ ? num_rows_ : static_cast<std::int64_t>(indices_.size());
}

const Shape& Dataset::shape() const {
  static const Shape kNone;
  return rows_ == nullptr ? kNone : rows_->shape;
}

bool Dataset::has_labels() const {
  return rows_ != nullptr && !rows_->labels.empty();
}

std::int64_t Dataset::target_size() const {
  return rows_ == nullptr ? 0 : rows_->target_size;
}

std::int64_t Dataset::find_target_outside(double low, double high) const {
  const auto outside = [&](double value) { return !(value >= low && value <= high); };
  for (std::int64_t i = 0; i < size(); ++i) {
    if (has_labels()) {
      if (outside(rows_->labels[row(i)])) return i;
      continue;
    }
    const auto width = static_cast<std::size_t>(rows_->target_size);
    const float* values = rows_->values.data() + row(i) * width;
    if (std::any_of(values, values + width, outside)) return i;
  }
  return -1;
}

double Dataset::target(std::int64_t position) const {
  if (has_labels()) return rows_->labels[row(position)];
  return rows_->values[row(position) * static_cast<std::size_t>(rows_->target_size)];
}

std::vector<std::int32_t> Dataset::labels() const {
  std::vector<std::int32_t> result;
  if (!has_labels()) return result;
  result.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) result.push_back(rows_->labels[row(i)]);
  return result;
}

Dataset Dataset::subset(std::span<const std::int64_t> positions) const {
  Dataset part;
  part.rows_ = rows_;
  part.example_size_ = example_size_;
  part.num_rows_ = num_rows_;
  part.whole_ = false;
  part.indices_.reserve(positions.size());
  for (const std::int64_t position : positions) {
    part.indices_.push_back(static_cast<std::int64_t>(row(position)));
  }
  return part;
}

Dataset Dataset::compacted() const {
  if (whole_) return *this;
  const auto width = static_cast<std::size_t>(example_size_);
  const auto targets = static_cast<std::size_t>(rows_->target_size);
  auto own = std::make_shared<DatasetRows>();
  own->shape = rows_->shape;
  own->target_size = rows_->target_size;
  const auto append = [](auto& to, const auto& from, std::size_t at, std::size_t count) {
    if (!from.empty())
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at),
                from.begin() + static_cast<std::ptrdiff_t>(at + count));
  };
  own->bytes.reserve(rows_->bytes.empty() ? 0 : indices_.size() * width);
  own->floats.reserve(rows_->floats.empty() ? 0 : indices_.size() * width);
  for (const std::int64_t index : indices_) {
    const auto at = static_cast<std::size_t>(index);
    append(own->bytes, rows_->bytes, at * width, width);
    append(own->floats, rows_->floats, at * width, width);
    append(own->labels, rows_->labels, at, 1);
    append(own->values, rows_->values, at * targets, targets);
  }
  Dataset part;
  part.rows_ = std::move(own);
  part.example_size_ = example_size_;
  part.num_rows_ = static_cast<std::int64_t>(indices_.size());
  return part;
}

void Dataset::copy_features(std::span<const std::int64_t> positions, std::span<float> out) const {
  const auto width = static_cast<std::size_t>(example_size_);
  float* to = out.data();
  for (const std::int64_t position : positions) {
    const std::size_t at = row(position) * width;
    if (rows_->bytes.empty()) {
      std::copy_n(rows_->floats.data() + at, width, to);
    } else {
      const std::uint8_t* from = rows_->bytes.data() + at;
      for (std::size_t i = 0; i < width; ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
    }
    to += width;
  }
}

void Dataset::copy_labels(std::span<const std::int64_t> positions,
                          std::span<std::int32_t> out) const {
  for (std::size_t i = 0; i < positions.size(); ++i) out[i] = rows_->labels[row(positions[i])];
}

void Dataset::copy_values(std::span<const std::int64_t> positions, std::span<float> out) const {
  const auto width = static_cast<std::size_t>(rows_->target_size);
  float* to = out.data();
  for (const std::int64_t position : positions) {
    if (has_labels()) {
      *to++ = static_cast<float>(rows_->labels[row(position)]);
    } else {
      to = std::copy_n(rows_->values.data() + row(position) * width, width, to);
    }
  }
}

}  // namespace muster
