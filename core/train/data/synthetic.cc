#include "core/train/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/exact_math.h"
#include "core/base/random.h"
#include "core/train/data/spec_fields.h"

namespace muster {
namespace {

constexpr std::size_t kFeatures = SyntheticModel::kFeatures;

// A stream of its own for each part of a device, so that none shifts another.
Random stream(std::uint64_t seed, std::string_view part, std::int64_t device) {
  return Random(derive_seed(seed, {"synthetic", part, std::to_string(device)}));
}

// Standard deviations: the square roots of j^-1.2.
std::array<double, kFeatures> feature_deviations() {
  std::array<double, kFeatures> deviations{};
  for (std::size_t j = 0; j < kFeatures; ++j) {
    deviations[j] = exact_exp(-0.6 * exact_log(static_cast<double>(j + 1)));
  }
  return deviations;
}

// The softmax rises with its argument, so its largest is that of the largest logit; the first of
// equal ones, as NumPy's argmax takes it.
std::int32_t label_of(const SyntheticModel& model, std::span<const float> x) {
  std::array<double, SyntheticModel::kClasses> logits{};
  for (std::size_t c = 0; c < logits.size(); ++c) {
    double sum = model.bias[c];
    for (std::size_t j = 0; j < kFeatures; ++j) {
      sum += model.weights[c][j] * static_cast<double>(x[j]);
    }
    logits[c] = sum;
  }
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void append_device(const SyntheticOptions& options, std::uint64_t seed, std::int64_t device,
                   DatasetRows& rows) {
  const SyntheticModel model = synthetic_model(options, seed, device);
  const std::array<double, kFeatures> deviations = feature_deviations();
  Random random = stream(seed, "examples", device);
  std::array<float, kFeatures> x{};
  for (std::int64_t left = synthetic_size(seed, device); left > 0; --left) {
    for (std::size_t j = 0; j < kFeatures; ++j) {
      x[j] = static_cast<float>(model.means[j] + deviations[j] * random.normal());
    }
    rows.floats.insert(rows.floats.end(), x.begin(), x.end());
    rows.labels.push_back(label_of(model, x));
  }
}

Status check(const SyntheticOptions& options, const SyntheticLimits& limits) {
  for (const auto& [name, value] : {std::pair("alpha", options.alpha), {"beta", options.beta}}) {
    // The negated form also refuses a NaN.
    if (!(value >= 0 && value <= limits.spread)) {
      return bad_data_spec(
          fmt::format("{}={} found, a number from 0 to {} is wanted", name, value, limits.spread));
    }
  }
  if (options.devices < 1 || options.devices > limits.devices) {
    return bad_data_spec(fmt::format("devices={} found, a whole number from 1 to {} is wanted",
                                     options.devices, limits.devices));
  }
  return {};
}

// Devices first to last - 1.
Result<Dataset> draw(const SyntheticOptions& options, std::uint64_t seed, std::int64_t first,
                     std::int64_t last, const SyntheticLimits& limits) {
  // All sizes before any memory. Each is under 2^31, whatever is drawn: no sum overflows.
  std::int64_t examples = 0;
  for (std::int64_t device = first; device < last; ++device) {
    examples += synthetic_size(seed, device);
  }
  if (examples > limits.examples) {
    return Error{ErrorCode::kResourceExhausted,
                 fmt::format("data spec: seed={} gives {} {} examples, over the limit {}: "
                             "another seed or fewer devices is wanted",
                             seed,
                             last - first == 1 ? fmt::format("device {}", first)
                                               : fmt::format("{} devices together", last - first),
                             examples, limits.examples),
                 "too_many_examples"};
  }
  DatasetRows rows;
  rows.shape = {static_cast<std::int64_t>(kFeatures)};
  rows.floats.reserve(static_cast<std::size_t>(examples) * kFeatures);
  rows.labels.reserve(static_cast<std::size_t>(examples));
  for (std::int64_t device = first; device < last; ++device) {
    append_device(options, seed, device, rows);
  }
  return Dataset::create(std::move(rows));
}

}  // namespace

std::int64_t synthetic_size(std::uint64_t seed, std::int64_t device) {
  // A normal of Random is under 8.6, so this is under e^21.2.
  const double drawn = exact_exp(4 + 2 * stream(seed, "size", device).normal());
  return static_cast<std::int64_t>(std::floor(drawn)) + 50;
}

SyntheticModel synthetic_model(const SyntheticOptions& options, std::uint64_t seed,
                               std::int64_t device) {
  Random random = stream(seed, "model", device);
  const double model_mean = options.alpha * random.normal();   // u_k
  const double feature_mean = options.beta * random.normal();  // B_k
  SyntheticModel model;
  for (auto& of_class : model.weights) {
    for (double& weight : of_class) weight = model_mean + random.normal();
  }
  for (double& bias : model.bias) bias = model_mean + random.normal();
  for (double& mean : model.means) mean = feature_mean + random.normal();
  return model;
}

Result<Dataset> synthetic_device(const SyntheticOptions& options, std::uint64_t seed,
                                 std::int64_t device, const SyntheticLimits& limits) {
  MUSTER_TRY_STATUS(check(options, limits));
  if (device < 0 || device >= options.devices) {
    return bad_data_spec(fmt::format("shard={0}/{1} found, K/{1} with K from 0 to {2} is wanted",
                                     device, options.devices, options.devices - 1));
  }
  return draw(options, seed, device, device + 1, limits);
}

Result<Dataset> synthetic_all(const SyntheticOptions& options, std::uint64_t seed,
                              const SyntheticLimits& limits) {
  MUSTER_TRY_STATUS(check(options, limits));
  return draw(options, seed, 0, options.devices, limits);
}

}  // namespace muster
