#include "core/graph/ops/standardize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/graph/ops/registry.h"

namespace muster {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

// Records an error in the object when it is not so.
std::vector<double> read_numbers(JsonObject& object, std::string_view key, double low,
                                 double high) {
  std::vector<double> numbers;
  const Json& json = object.value(key);
  if (!object.ok()) return numbers;
  if (!json.is_array() || json.empty() || json.size() > kMostStandardized) {
    object.fail(key, "found " + describe(json) + ", wanted a list of 1 to " +
                         std::to_string(kMostStandardized) + " numbers");
    return numbers;
  }
  numbers.reserve(json.size());
  for (const Json& item : json) {
    const double number = item.is_number() ? item.get<double>() : std::nan("");
    // The negated form also refuses a NaN.
    if (!(number >= low && number <= high)) {
      object.fail(key, "entry " + std::to_string(numbers.size()) + " is " + describe(item) +
                           ", wanted a number from " + describe(Json(low)) + " to " +
                           describe(Json(high)));
      return numbers;
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void read_standardize_fields(JsonObject& object, StandardizeState& state) {
  state.mean = read_numbers(object, "mean", -kLargest, kLargest);
  state.variance = read_numbers(object, "variance", 0, kLargest * kLargest);
  if (object.ok() && state.mean.size() != state.variance.size()) {
    object.fail("variance", "has " + std::to_string(state.variance.size()) +
                                " entries, wanted as many as \"mean\" has, " +
                                std::to_string(state.mean.size()));
  }
}

namespace ops {
namespace {

// y = (x - mean) / sqrt(variance + eps) with fixed figures; a feature of variance 0 is constant,
// and only its mean is taken off. Not learned: no parameters, dx = dy / sqrt(variance + eps).
class Standardize final : public Op {
 public:
  // The state's lengths fit the shape of `size` elements.
  Standardize(const Shape& shape, StandardizeState state, double eps, std::size_t size)
      : Op({.output = shape}),
        state_(std::move(state)),
        eps_(eps),
        entries_(state_.mean.size()),
        each_(size / entries_) {
    for (std::size_t i = 0; i < entries_; ++i) {
      // In two parts, so that a mean that is large beside the deviation loses nothing.
      upper_.push_back(static_cast<float>(state_.mean[i]));
      lower_.push_back(static_cast<float>(state_.mean[i] - static_cast<double>(upper_[i])));
      scale_.push_back(scale_of(state_.variance[i], eps));
    }
  }

  static float scale_of(double variance, double eps) {
    return variance == 0 ? 1.0F : static_cast<float>(1.0 / std::sqrt(variance + eps));
  }

  Json attributes() const override {
    Json json{{"mean", state_.mean}, {"variance", state_.variance}, {"eps", eps_}};
    if (state_.count > 0) json["count"] = state_.count;
    return json;
  }

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    for (std::int64_t row = 0; row < io.batch;
         ++row, x += entries_ * each_, y += entries_ * each_) {
      if (each_ == 1) {
        forward_features(x, y);
      } else {
        for (std::size_t g = 0; g < entries_; ++g) forward_group(g, x + g * each_, y + g * each_);
      }
    }
  }

  void backward(const Backward& io) const override {
    if (io.dinputs[0].empty()) return;
    const float* dy = io.doutput.data();
    float* dx = io.dinputs[0].data();
    for (std::int64_t row = 0; row < io.batch; ++row) {
      for (std::size_t g = 0; g < entries_; ++g) {
        const float scale = scale_[g];
        for (std::size_t i = 0; i < each_; ++i) dx[i] = dy[i] * scale;
        dx += each_;
        dy += each_;
      }
    }
  }

 private:
  void forward_features(const float* __restrict x, float* __restrict y) const {
    const float* __restrict upper = upper_.data();
    const float* __restrict lower = lower_.data();
    const float* __restrict scale = scale_.data();
    for (std::size_t i = 0; i < entries_; ++i) y[i] = ((x[i] - upper[i]) - lower[i]) * scale[i];
  }

  void forward_group(std::size_t group, const float* __restrict x, float* __restrict y) const {
    const float upper = upper_[group];
    const float lower = lower_[group];
    const float scale = scale_[group];
    for (std::size_t i = 0; i < each_; ++i) y[i] = ((x[i] - upper) - lower) * scale;
  }

  StandardizeState state_;
  double eps_;
  std::size_t entries_;  // of the state
  std::size_t each_;     // elements of an example, one after another, that share an entry
  std::vector<float> upper_;
  std::vector<float> lower_;
  std::vector<float> scale_;
};

}  // namespace

Created create_standardize(JsonObject& attributes, std::span<const Shape> inputs) {
  const bool fitted = attributes.find("mean") != nullptr || attributes.find("variance") != nullptr;
  StandardizeState state;
  state.count = attributes.integer("count", 0, {0, std::numeric_limits<std::int64_t>::max()});
  const double eps = attributes.number("eps", 0.0, {0.0, 1e6});
  if (!fitted) {
    attributes.find("per");
    return Error{ErrorCode::kInvalidArgument,
                 "standardize has no state yet: fit it on the training data first "
                 "(fit_standardizers), or give it \"mean\" and \"variance\""};
  }
  read_standardize_fields(attributes, state);
  if (!attributes.ok()) return attributes.finish().error();
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  const auto entries = static_cast<std::int64_t>(state.mean.size());
  const std::int64_t channels = inputs[0].empty() ? 1 : inputs[0][0];
  if (entries != size && entries != channels && entries != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "standardize got an input of shape " + to_string(inputs[0]) + " and " +
                     std::to_string(entries) + " means, wanted " + std::to_string(size) +
                     " (one a feature), " + std::to_string(channels) +
                     " (one a channel) or 1 (one for all)"};
  }
  for (std::size_t i = 0; i < state.variance.size(); ++i) {
    if (std::isfinite(Standardize::scale_of(state.variance[i], eps))) continue;
    return Error{ErrorCode::kInvalidArgument, "standardize: 1 / sqrt(variance + eps) of entry " +
                                                  std::to_string(i) + ", variance " +
                                                  describe(Json(state.variance[i])) +
                                                  ", is not finite as float32"};
  }
  return std::make_unique<Standardize>(inputs[0], std::move(state), eps,
                                       static_cast<std::size_t>(size));
}

}  // namespace ops
}  // namespace muster
