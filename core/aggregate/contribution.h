#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/aggregate/update_values.h"

namespace muster {

// One device's part in an aggregate.
struct Contribution {
  std::string contributor;  // its name: fixes the order in which contributions are taken
  ValuesPtr values;
  std::int64_t examples = 0;  // training examples behind it
  std::int64_t steps = 0;     // optimiser steps done; FedNova and SCAFFOLD want them
  std::optional<double> initial_loss =
      {};                      // of the global state on its examples; q-FedAvg wants it
  std::int64_t staleness = 0;  // global states committed since the one it began from; FedBuff
  // It was checked before that all values are finite (an update from the intake): `accumulate` then
  // does not read them again. What slipped through is found by `finish`.
  bool known_finite = false;
};

}  // namespace muster
