#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/aggregate/settings.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/round/selection.h"

namespace muster {

// A training strategy is a description only: what to do, not how to reach who does it. It reads
// from and writes to JSON by its "type" tag. A type, method or field that this build does not know
// is an error that lists the known ones: running what one does not understand as if it were
// something else would train and report success.

// {"type": "Federated", "num_clients": 10, "rounds": 20, "aggregation": {"method": "FedProx", "mu":
// 0.01},
//  "client_selection": {"method": "Random", "fraction": 0.5}}
// "aggregation" takes every rule of core/aggregate/settings.h and defaults to FedAvg;
// "client_selection" defaults to All.
struct Federated {
  std::int64_t num_clients = 1;  // 1 to 1,000,000
  std::int64_t rounds = 1;       // 1 to 1,000,000
  AggregationSettings aggregation;
  ClientSelection client_selection;
};

using TrainingStrategy = std::variant<Federated>;

Result<TrainingStrategy> strategy_from_json(const Json& json, const std::string& where);
Json to_json(const TrainingStrategy& strategy);

}  // namespace muster
