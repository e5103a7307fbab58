#include "core/strategy/description/population_based.h"

namespace muster {

Result<PopulationBased> population_based_from_json(JsonObject& object) {
  PopulationBased strategy;
  strategy.population_size = object.integer("population_size", {1, 10'000});
  strategy.generations = object.integer("generations", {1, 1'000'000});
  strategy.steps = object.integer("steps", {1, 1'000'000'000});
  strategy.min_workers = object.integer("min_workers", strategy.min_workers, {1, 10'000});
  const Json& space = object.value("search_space");
  const Json* exploit = object.find("exploit");
  const Json* explore = object.find("explore");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(strategy.search_space,
             search_space_from_json(space, object.where() + ".search_space"));
  if (exploit != nullptr) {
    MUSTER_TRY(strategy.exploit, exploit_from_json(*exploit, object.where() + ".exploit"));
  }
  if (explore != nullptr) {
    MUSTER_TRY(strategy.explore, explore_from_json(*explore, object.where() + ".explore"));
  }
  return strategy;
}

Json to_json(const PopulationBased& strategy) {
  return {{"population_size", strategy.population_size},
          {"generations", strategy.generations},
          {"steps", strategy.steps},
          {"min_workers", strategy.min_workers},
          {"search_space", to_json(strategy.search_space)},
          {"exploit", to_json(strategy.exploit)},
          {"explore", to_json(strategy.explore)}};
}

}  // namespace muster
