#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/aggregate/settings.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/round/selection.h"
#include "core/strategy/description/data_parallel.h"
#include "core/strategy/description/model_parallel.h"
#include "core/strategy/description/population_based.h"

namespace muster {

// A training strategy is a description only: what to do, not how to reach who does it. It reads
// from and writes to JSON by its "type" tag. A type, method or field that this build does not know
// is an error that lists the known ones: running what one does not understand as if it were
// something else would train and report success.

// One worker trains on all the data.
//   {"type": "Local"}
struct Local {};

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

// A coordinator that the embedding program registered under a name.
//   {"type": "Custom", "coordinator": "swarm", "config": {...}}    "config": any value, {} by
//   default
struct Custom {
  std::string coordinator;
  Json config = Json::object();
};

using TrainingStrategy =
    std::variant<Local, DataParallel, ModelParallel, Federated, PopulationBased, Custom>;

// "Federated"
std::string_view type_of(const TrainingStrategy& strategy);

Result<TrainingStrategy> strategy_from_json(const Json& json, const std::string& where);
Json to_json(const TrainingStrategy& strategy);

}  // namespace muster
