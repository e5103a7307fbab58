#include "core/train/data_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/graph/statistics.h"

namespace muster {
namespace {

constexpr std::int64_t kAtOnce = 256;  // examples

// A sum that keeps what its roundings lost (Knuth's two-sum).
struct Sum {
  double high = 0;
  double low = 0;

  void add(double value) {
    const double sum = high + value;
    const double part = sum - high;
    low += (high - (sum - part)) + (value - part);
    high = sum;
  }
  double over(std::int64_t count) const { return (high + low) / static_cast<double>(count); }
};

Error bad_data(std::string message) {
  return {ErrorCode::kInvalidArgument, "statistics: " + std::move(message), "bad_data"};
}

Status check_fits(const StatisticsSize& size, const Dataset& data) {
  if (data.size() < 1) return bad_data("there are no examples");
  if (data.example_size() != size.features) {
    return bad_data(fmt::format("the model is of {} features, the examples here have {}",
                                size.features, data.example_size()));
  }
  if (size.classes == 0) return {};
  if (!data.has_labels() || data.target_size() != 1) {
    return bad_data("the model is of classes, the targets here are not one label an example");
  }
  const auto highest = static_cast<double>(size.classes - 1);
  if (const auto outside = data.find_target_outside(0, highest)) {
    return bad_data(fmt::format("the model is of {} classes, example {} here has the label {}",
                                size.classes, outside->example, outside->value));
  }
  return {};
}

Json means_of(const std::vector<Sum>& sums, std::int64_t count) {
  Json means = Json::array();
  for (const Sum& sum : sums) means.push_back(sum.over(count));
  return means;
}

Json label_shares(const StatisticsSize& size, const Dataset& data) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size.classes), 0);
  if (size.classes > 0) {
    for (const std::int32_t label : data.labels()) ++counts[static_cast<std::size_t>(label)];
  }
  Json shares = Json::array();
  for (const std::int64_t count : counts) {
    shares.push_back(static_cast<double>(count) / static_cast<double>(data.size()));
  }
  return shares;
}

}  // namespace

Result<Json> data_statistics(const Json& state, const Dataset& data, std::stop_token stop) {
  const std::optional<StatisticsSize> size = statistics_size(state);
  if (!size) {
    return Error{ErrorCode::kInvalidArgument,
                 "the job's model is a JSON state other than {\"statistics\": {...}}, which is the "
                 "only one that this trainer computes",
                 "bad_model"};
  }
  MUSTER_TRY_STATUS(check_fits(*size, data));
  const auto features = static_cast<std::size_t>(size->features);
  std::vector<Sum> sums(features);
  std::vector<Sum> squares(features);
  std::vector<float> block(features * kAtOnce);
  std::vector<std::int64_t> positions(kAtOnce);
  for (std::int64_t at = 0; at < data.size(); at += kAtOnce) {
    if (stop.stop_requested()) return Error{ErrorCode::kCancelled, "statistics: stopped"};
    const auto count = static_cast<std::size_t>(std::min(kAtOnce, data.size() - at));
    positions.resize(count);
    std::iota(positions.begin(), positions.end(), at);
    data.copy_features(positions, {block.data(), count * features});
    for (std::size_t i = 0; i < count * features; ++i) {
      const double value = block[i];
      sums[i % features].add(value);
      squares[i % features].add(value * value);  // exact: 48 bits
    }
  }
  return Json{{"mean", means_of(sums, data.size())},
              {"mean_square", means_of(squares, data.size())},
              {"label_share", label_shares(*size, data)}};
}

}  // namespace muster
