#include "core/strategy/strategy.h"

#include <utility>

namespace muster {
namespace {

constexpr JsonObject::IntegerRange kCounts{1, 1'000'000};

Result<Federated> federated_from_json(JsonObject& object) {
  Federated federated;
  federated.num_clients = object.integer("num_clients", kCounts);
  federated.rounds = object.integer("rounds", kCounts);
  if (const Json* json = object.find("aggregation")) {
    MUSTER_TRY(federated.aggregation,
               aggregation_from_json(*json, object.where() + ".aggregation"));
  }
  if (const Json* json = object.find("client_selection")) {
    MUSTER_TRY(federated.client_selection,
               client_selection_from_json(*json, object.where() + ".client_selection"));
  }
  MUSTER_TRY_STATUS(object.finish());
  return federated;
}

}  // namespace

Result<TrainingStrategy> strategy_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  object.choice("type", {"Federated"});
  // Before the fields: those of a type that this build does not have are unknown too, and not the
  // point.
  if (!object.ok()) return object.finish().error();
  MUSTER_TRY(Federated federated, federated_from_json(object));
  return TrainingStrategy{std::move(federated)};
}

Json to_json(const TrainingStrategy& strategy) {
  const auto& federated = std::get<Federated>(strategy);
  return {{"type", "Federated"},
          {"num_clients", federated.num_clients},
          {"rounds", federated.rounds},
          {"aggregation", to_json(federated.aggregation)},
          {"client_selection", to_json(federated.client_selection)}};
}

}  // namespace muster
