#pragma once

#include <cstdint>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/strategy/population/population.h"
#include "core/strategy/population/search_space.h"

namespace muster {

// Population based training (population/population.h).
//   {"type": "PopulationBased", "population_size": 8, "generations": 10, "steps": 100,
//    "min_workers": 1, "search_space": {"optimizer.lr": {...}},
//    "exploit": {"method": "Truncation", "fraction": 0.2},
//    "explore": {"method": "Perturbation", "factor": 1.2}}
struct PopulationBased {
  std::int64_t population_size = 2;  // 1 to 10,000, also more than there are workers
  std::int64_t generations = 1;      // 1 to 1,000,000
  std::int64_t steps = 1;            // optimiser steps of a member in a generation, 1 to 10^9
  std::int64_t min_workers = 1;      // goes on with this many when workers are lost
  SearchSpace search_space = {};
  ExploitSettings exploit = {};
  ExploreSettings explore = {};
};

// Reads all but "type".
Result<PopulationBased> population_based_from_json(JsonObject& object);
Json to_json(const PopulationBased& strategy);

}  // namespace muster
