#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/graph/loss.h"

// The losses once more, in double precision and straight from their definitions, and batches to
// try them on.
namespace muster::reference {

struct Batch {
  std::vector<float> prediction;
  std::vector<std::int32_t> labels;
  std::vector<float> values;

  TargetView target() const { return {labels, values}; }
};

// `spread` times standard normal predictions, and targets that fit.
inline Batch make_batch(const Loss& loss, std::int64_t predictions_per_example, std::int64_t batch,
                        std::uint64_t seed, double spread = 2.0) {
  Random random(seed);
  Batch made;
  for (std::int64_t i = 0; i < batch * predictions_per_example; ++i) {
    made.prediction.push_back(static_cast<float>(spread * random.normal()));
  }
  for (std::int64_t i = 0; i < batch * loss.targets_per_example(); ++i) {
    if (loss.wants_labels()) {
      made.labels.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(loss.num_classes()))));
    } else {
      made.values.push_back(static_cast<float>(random.uniform()));
    }
  }
  return made;
}

// sum over rows of -(1 - s) w_y log p_y - s / C sum_c w_c log p_c; "mean" divides by sum w_y.
inline double cross_entropy(const Json& loss, const std::vector<double>& x, const Batch& batch,
                            std::size_t classes) {
  const double s = loss.value("label_smoothing", 0.0);
  const auto w = loss.value("class_weights", std::vector<double>(classes, 1.0));
  double total = 0;
  double weights = 0;
  for (std::size_t row = 0; row < batch.labels.size(); ++row) {
    const auto label = static_cast<std::size_t>(batch.labels[row]);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[row * classes + c]);
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = (c == label ? 1 - s : 0.0) + s / static_cast<double>(classes);
      total -= target * w[c] * std::log(std::exp(x[row * classes + c]) / sum);
    }
    weights += w[label];
  }
  return loss.value("reduction", "mean") == "mean" ? total / weights : total;
}

inline double of_element(const Json& loss, double x, double t, std::size_t output) {
  const auto type = loss.at("type").get<std::string>();
  const double d = x - t;
  if (type == "mse") return d * d;
  if (type == "mae") return std::abs(d);
  if (type == "huber") {
    const double delta = loss.value("delta", 1.0);
    return std::abs(d) <= delta ? 0.5 * d * d : delta * (std::abs(d) - 0.5 * delta);
  }
  if (type != "bce_with_logits") throw std::runtime_error("no reference for " + type);
  double weight = 1;
  if (loss.contains("pos_weight")) {
    const Json& given = loss.at("pos_weight");
    weight = given.is_array() ? given.at(output).get<double>() : given.get<double>();
  }
  const double sigmoid = 1 / (1 + std::exp(-x));
  return -weight * t * std::log(sigmoid) - (1 - t) * std::log(1 - sigmoid);
}

// The loss of a batch whose predictions are `x`.
inline double loss_of(const Json& json, const Loss& loss, const std::vector<double>& x,
                      const Batch& batch) {
  if (loss.wants_labels()) {
    return cross_entropy(json, x, batch, static_cast<std::size_t>(loss.num_classes()));
  }
  const auto outputs = static_cast<std::size_t>(loss.targets_per_example());
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    total += of_element(json, x[i], batch.values[i], i % outputs);
  }
  return json.value("reduction", "mean") == "mean" ? total / static_cast<double>(x.size()) : total;
}

}  // namespace muster::reference
