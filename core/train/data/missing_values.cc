#include "core/train/data/missing_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/bytes.h"

namespace muster {
namespace {

double median_of(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const float below = *std::max_element(values.begin(), middle);
  return (static_cast<double>(below) + static_cast<double>(*middle)) / 2;
}

double mean_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

void replace(std::vector<float>& floats, std::size_t feature, std::size_t width, float value) {
  for (std::size_t at = feature; at < floats.size(); at += width) {
    if (std::isnan(floats[at])) floats[at] = value;
  }
}

}  // namespace

Result<LocalData> fill_missing(LocalData data, std::span<const MissingFill> fills,
                               const std::string& name) {
  if (fills.empty() || data.train.size() + data.holdout.size() == 0) return data;
  const auto width = static_cast<std::size_t>(data.train.example_size());
  DatasetRows train = data.train.own_rows();
  DatasetRows holdout = data.holdout.own_rows();
  // Their rows are no longer needed.
  data = {};
  for (const MissingFill& fill : fills) {
    const auto feature = static_cast<std::size_t>(fill.feature);
    std::vector<float> values;
    for (std::size_t at = feature; at < train.floats.size(); at += width) {
      if (!std::isnan(train.floats[at])) values.push_back(train.floats[at]);
    }
    const bool median = fill.with == MissingFill::With::kMedian;
    if (values.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   name + ": the column \"" + printable(fill.column) +
                       "\" has no value in the training part, so there is no " +
                       (median ? "median" : "mean") + " to fill with; state a number for it",
                   "bad_data"};
    }
    const auto figure = static_cast<float>(median ? median_of(values) : mean_of(values));
    replace(train.floats, feature, width, figure);
    replace(holdout.floats, feature, width, figure);
  }
  LocalData filled;
  MUSTER_TRY(filled.train, Dataset::create(std::move(train)));
  if (!holdout.shape.empty()) {
    MUSTER_TRY(filled.holdout, Dataset::create(std::move(holdout)));
  }
  return filled;
}

}  // namespace muster
