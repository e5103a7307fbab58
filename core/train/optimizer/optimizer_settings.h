#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

// The settings of the optimisers, named and defined as torch.optim names and defines them. g is the
// gradient by the weights w, in which all of them move; operations are element by element.
namespace muster {

// g += weight_decay * w; momentum buffer b = g at the first step, later b = momentum * b + (1 -
// dampening) * g; g = nesterov ? g + momentum * b : b; w -= lr * g. Without momentum w -= lr * g.
//   {"type": "sgd", "lr": 0.01, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov":
//   false}
struct SgdSettings {
  static constexpr std::string_view kType = "sgd";
  static constexpr double kLr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // wants a momentum and no dampening
};

// Kingma and Ba 2015, algorithm 1: g += weight_decay * w; m = beta1 * m + (1 - beta1) * g; v =
// beta2
// * v + (1 - beta2) * g^2; at step s = 1, 2, ...: w -= lr * (m / (1 - beta1^s)) / (sqrt(v / (1 -
// beta2^s)) + eps).
//   {"type": "adam", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0}
struct AdamSettings {
  static constexpr std::string_view kType = "adam";
  static constexpr double kLr = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// Loshchilov and Hutter 2019, algorithm 2: w *= 1 - lr * weight_decay, then Adam without its own
// weight decay.
//   {"type": "adamw", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
struct AdamWSettings {
  static constexpr std::string_view kType = "adamw";
  static constexpr double kLr = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

// Duchi, Hazan and Singer 2011: g += weight_decay * w; v += g^2, from initial_accumulator_value; at
// step s = 1, 2, ...: w -= lr / (1 + (s - 1) * lr_decay) * g / (sqrt(v) + eps).
//   {"type": "adagrad", "lr": 0.01, "lr_decay": 0, "weight_decay": 0,
//    "initial_accumulator_value": 0, "eps": 1e-10}
struct AdagradSettings {
  static constexpr std::string_view kType = "adagrad";
  static constexpr double kLr = 0.01;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};

// Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013, equations 38 to 45. g +=
// weight_decay * w; v = alpha * v + (1 - alpha) * g^2; d = sqrt(v) + eps, or, centered, a = alpha *
// a + (1 - alpha) * g and d = sqrt(v - a^2) + eps; w -= lr * g / d, or, with momentum, b = momentum
// * b + g / d and w -= lr * b. Where rounding makes v - a^2 negative it counts as 0.
//   {"type": "rmsprop", "lr": 0.01, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0,
//    "centered": false}
struct RmspropSettings {
  static constexpr std::string_view kType = "rmsprop";
  static constexpr double kLr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};

// The "optimizer" object of a job. "type" left out is "sgd"; each other field has the default shown
// with its type, and a field that belongs to another type is refused by name.
struct OptimizerSettings {
  using Rule =
      std::variant<SgdSettings, AdamSettings, AdamWSettings, AdagradSettings, RmspropSettings>;

  double lr = SgdSettings::kLr;  // the rate that a schedule (schedule.h) starts from
  Rule rule = SgdSettings{};

  std::string_view type() const;
};

// Errors: kInvalidArgument naming the field, as JsonObject does; an unknown type lists the known
// ones.
Result<OptimizerSettings> optimizer_settings_from_json(const Json& json, const std::string& where);
// Round-trips.
Json to_json(const OptimizerSettings& settings);

}  // namespace muster
