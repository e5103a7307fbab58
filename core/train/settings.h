#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// Stochastic gradient descent as torch.optim.SGD defines it: g += weight_decay * w; momentum buffer
// b = g at the first step, later b = momentum * b + (1 - dampening) * g; g = nesterov ? g +
// momentum * b : b; w -= lr * g.
struct OptimizerSettings {
  std::string type = "sgd";
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// The "local" object of a job: how a device trains in one round.
//   {"epochs": 1, "batch_size": 10, "optimizer": {"type": "sgd", "lr": 0.05}, "shuffle": true}
struct LocalSettings {
  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;  // 0: no limit beside the epochs
  std::int64_t batch_size = 32;
  bool shuffle = true;  // a new order each epoch, from the task's seed
  OptimizerSettings optimizer;
  // The proximal term of FedProx (Li et al. 2020, equation 2): the gradient gains mu * (w -
  // w_global). Set from the strategy, not from the job's "local".
  double mu = 0;
};

// Errors: kInvalidArgument naming the field, as JsonObject does.
Result<LocalSettings> local_settings_from_json(const Json& json, const std::string& where);
// Round-trips, mu included.
Json to_json(const LocalSettings& settings);

}  // namespace muster
