#include "core/train/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

Error bad_data(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "data set: " + message, "bad_data"};
}

// byte / 255, rounded to nearest, without a division. The upper part of 1/255 times a byte is
// exact, so only the sum of both parts rounds in a way that shows; that it is the quotient for all
// bytes is checked below.
constexpr float kUpper = 0x1.01p-8F;
constexpr float kLower = static_cast<float>(1.0 / 255 - 0x1.01p-8);

constexpr float over_255(std::uint8_t byte) {
  const auto value = static_cast<float>(byte);
  return value * kUpper + value * kLower;
}

constexpr bool equals_the_quotient() {
  for (int i = 0; i < 256; ++i) {
    if (over_255(static_cast<std::uint8_t>(i)) != static_cast<float>(i) / 255.0F) return false;
  }
  return true;
}
static_assert(equals_the_quotient());

// The arrays do not overlap; said so, the loops become vectors without a check at run time.
template <typename From, typename To, typename Convert>
void convert(const From* __restrict from, std::size_t count, To* __restrict to,
             const Convert& each) {
  for (std::size_t i = 0; i < count; ++i) to[i] = each(from[i]);
}

template <typename From, typename To>
void convert(const From* from, std::size_t count, To* to) {
  convert(from, count, to, [](From value) { return static_cast<To>(value); });
}

Result<std::int64_t> count_windows(const DatasetRows& rows) {
  if (rows.shape.size() != 1 || rows.shape[0] != rows.target_size) {
    return bad_data("windows have examples of shape " + to_string(rows.shape) + " and " +
                    std::to_string(rows.target_size) + " targets, [T] and T are wanted");
  }
  if (!rows.labels.empty() || !rows.values.empty() || !rows.words.empty() || !rows.floats.empty() ||
      rows.byte_divisor != 1.0F) {
    return bad_data("windows have nothing beside their bytes, with a divisor of 1");
  }
  const auto bytes = static_cast<std::int64_t>(rows.bytes.size());
  const std::int64_t each = rows.shape[0] + 1;  // with the byte that follows the last
  return bytes < each ? 0 : (bytes - each) / rows.window_stride + 1;
}

Result<std::int64_t> count_rows(const DatasetRows& rows, std::int64_t size) {
  const int forms =
      (rows.bytes.empty() ? 0 : 1) + (rows.words.empty() ? 0 : 1) + (rows.floats.empty() ? 0 : 1);
  if (forms > 1) return bad_data("features are given twice");
  if (!rows.labels.empty() && !rows.values.empty()) return bad_data("targets are given twice");
  const std::size_t features = rows.bytes.size() + rows.words.size() + rows.floats.size();
  const std::size_t targets = rows.labels.size() + rows.values.size();
  const std::size_t count = features / static_cast<std::size_t>(size);
  const auto per_target = static_cast<std::size_t>(rows.target_size);
  // The quotient, because a product could overflow.
  if (count * static_cast<std::size_t>(size) != features || targets % per_target != 0 ||
      targets / per_target != count) {
    return bad_data(std::to_string(features) + " features of " + std::to_string(size) +
                    " an example and " + std::to_string(targets) + " targets of " +
                    std::to_string(per_target) + " an example do not fit together");
  }
  const auto negative = std::find_if(rows.labels.begin(), rows.labels.end(),
                                     [](std::int32_t label) { return label < 0; });
  if (negative != rows.labels.end()) {
    return bad_data("label " + std::to_string(*negative) + " of example " +
                    std::to_string((negative - rows.labels.begin()) / rows.target_size) +
                    " is negative");
  }
  return static_cast<std::int64_t>(count);
}

}  // namespace

Result<Dataset> Dataset::create(DatasetRows rows) {
  MUSTER_TRY_IN("data set", const std::int64_t size, element_count(rows.shape));
  if (size < 1) return bad_data("an example of shape " + to_string(rows.shape) + " is empty");
  if (rows.target_size < 1) return bad_data("a target has no elements");
  if (!(rows.byte_divisor > 0) || !std::isfinite(rows.byte_divisor)) {
    return bad_data("the divisor of bytes is " + std::to_string(rows.byte_divisor) +
                    ", a finite number over 0 is wanted");
  }
  if (rows.window_stride < 0) return bad_data("the stride of windows is negative");
  Dataset data;
  data.example_size_ = size;
  data.step_ = rows.window_stride > 0 ? rows.window_stride : size;
  MUSTER_TRY(data.num_rows_, rows.window_stride > 0 ? count_windows(rows) : count_rows(rows, size));
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
  return windows() || (rows_ != nullptr && !rows_->labels.empty());
}

std::int64_t Dataset::target_size() const {
  return rows_ == nullptr ? 0 : rows_->target_size;
}

double Dataset::target_at(std::size_t row, std::size_t position) const {
  if (windows()) return rows_->bytes[begin_of(row) + 1 + position];
  const std::size_t at = row * static_cast<std::size_t>(rows_->target_size) + position;
  return rows_->labels.empty() ? static_cast<double>(rows_->values[at]) : rows_->labels[at];
}

std::optional<Dataset::Target> Dataset::find_target_outside(double low, double high) const {
  for (std::int64_t i = 0; i < size(); ++i) {
    for (std::int64_t k = 0; k < rows_->target_size; ++k) {
      const double value = target_at(row(i), static_cast<std::size_t>(k));
      // The negated form also finds a NaN.
      if (!(value >= low && value <= high)) return Target{i, k, value};
    }
  }
  return std::nullopt;
}

std::vector<std::int32_t> Dataset::labels() const {
  if (!has_labels()) return {};
  std::vector<std::int32_t> result(static_cast<std::size_t>(size() * target_size()));
  for (std::int64_t i = 0; i < size(); ++i) {
    copy_labels({&i, 1}, std::span(result).subspan(static_cast<std::size_t>(i * target_size())));
  }
  return result;
}

Dataset Dataset::subset(std::span<const std::int64_t> positions) const {
  Dataset part;
  part.rows_ = rows_;
  part.example_size_ = example_size_;
  part.step_ = step_;
  part.num_rows_ = num_rows_;
  part.whole_ = false;
  part.indices_.reserve(positions.size());
  for (const std::int64_t position : positions) {
    part.indices_.push_back(static_cast<std::int64_t>(row(position)));
  }
  return part;
}

DatasetRows Dataset::own_rows() const {
  if (rows_ == nullptr) return {};
  if (whole_) return *rows_;
  DatasetRows own;
  own.shape = rows_->shape;
  own.target_size = rows_->target_size;
  own.byte_divisor = rows_->byte_divisor;
  // Windows are cut out with the byte that follows them, and then lie one after another.
  const auto width = static_cast<std::size_t>(example_size_) + (windows() ? 1 : 0);
  if (windows()) own.window_stride = example_size_ + 1;
  const auto targets = static_cast<std::size_t>(rows_->target_size);
  const auto gather = [&](auto& to, const auto& from, std::size_t step, std::size_t count) {
    if (from.empty()) return;
    to.reserve(indices_.size() * count);
    for (const std::int64_t index : indices_) {
      const auto at =
          from.begin() + static_cast<std::ptrdiff_t>(index) * static_cast<std::ptrdiff_t>(step);
      to.insert(to.end(), at, at + static_cast<std::ptrdiff_t>(count));
    }
  };
  const auto step = static_cast<std::size_t>(step_);
  gather(own.bytes, rows_->bytes, step, width);
  gather(own.words, rows_->words, step, width);
  gather(own.floats, rows_->floats, step, width);
  gather(own.labels, rows_->labels, targets, targets);
  gather(own.values, rows_->values, targets, targets);
  return own;
}

Dataset Dataset::compacted() const {
  if (whole_) return *this;
  const std::size_t each = static_cast<std::size_t>(example_size_) + 1;
  if (windows() && indices_.size() >= rows_->bytes.size() / each) return *this;
  Dataset part;
  part.example_size_ = example_size_;
  part.num_rows_ = static_cast<std::int64_t>(indices_.size());
  part.step_ = windows() ? example_size_ + 1 : example_size_;
  part.rows_ = std::make_shared<const DatasetRows>(own_rows());
  return part;
}

void Dataset::copy_features(std::span<const std::int64_t> positions, std::span<float> out) const {
  const auto width = static_cast<std::size_t>(example_size_);
  float* to = out.data();
  for (const std::int64_t position : positions) {
    const std::size_t at = begin_of(row(position));
    if (!rows_->floats.empty()) {
      std::copy_n(rows_->floats.data() + at, width, to);
    } else if (!rows_->words.empty()) {
      convert(rows_->words.data() + at, width, to);
    } else if (rows_->byte_divisor == 255.0F) {
      convert(rows_->bytes.data() + at, width, to,
              [](std::uint8_t byte) { return over_255(byte); });
    } else if (rows_->byte_divisor == 1.0F) {
      convert(rows_->bytes.data() + at, width, to);
    } else {
      const float divisor = rows_->byte_divisor;
      convert(rows_->bytes.data() + at, width, to,
              [divisor](std::uint8_t byte) { return static_cast<float>(byte) / divisor; });
    }
    to += width;
  }
}

void Dataset::copy_labels(std::span<const std::int64_t> positions,
                          std::span<std::int32_t> out) const {
  const auto width = static_cast<std::size_t>(rows_->target_size);
  std::int32_t* to = out.data();
  for (const std::int64_t position : positions) {
    if (windows()) {
      convert(rows_->bytes.data() + begin_of(row(position)) + 1, width, to);
    } else {
      std::copy_n(rows_->labels.data() + row(position) * width, width, to);
    }
    to += width;
  }
}

void Dataset::copy_values(std::span<const std::int64_t> positions, std::span<float> out) const {
  const auto width = static_cast<std::size_t>(rows_->target_size);
  float* to = out.data();
  for (const std::int64_t position : positions) {
    if (windows()) {
      convert(rows_->bytes.data() + begin_of(row(position)) + 1, width, to);
    } else if (has_labels()) {
      convert(rows_->labels.data() + row(position) * width, width, to);
    } else {
      std::copy_n(rows_->values.data() + row(position) * width, width, to);
    }
    to += width;
  }
}

Digest Dataset::digest() const {
  constexpr std::int64_t kChunk = 64;
  Sha256 hash;
  hash.update(as_bytes(to_string(shape()) + (has_labels() ? " labels " : " values ") +
                       std::to_string(target_size()) + " " + std::to_string(size())));
  std::vector<std::int64_t> positions;
  std::vector<float> features(static_cast<std::size_t>(kChunk * example_size_));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(kChunk * target_size()));
  std::vector<float> values(labels.size());
  for (std::int64_t at = 0; at < size(); at += kChunk) {
    positions.resize(static_cast<std::size_t>(std::min(kChunk, size() - at)));
    std::iota(positions.begin(), positions.end(), at);
    const std::size_t targets = positions.size() * static_cast<std::size_t>(target_size());
    copy_features(positions, features);
    hash.update(std::as_bytes(
        std::span(features).first(positions.size() * static_cast<std::size_t>(example_size_))));
    if (has_labels()) {
      copy_labels(positions, labels);
      hash.update(std::as_bytes(std::span(labels).first(targets)));
    } else {
      copy_values(positions, values);
      hash.update(std::as_bytes(std::span(values).first(targets)));
    }
  }
  return hash.finish();
}

}  // namespace muster
