#include "core/strategy/strategy.h"

#include <array>
#include <utility>

namespace muster {
namespace {

constexpr JsonObject::IntegerRange kCounts{1, 1'000'000};
constexpr std::size_t kMostNameBytes = 100;

Result<TrainingStrategy> local_from_json(JsonObject& object) {
  MUSTER_TRY_STATUS(object.finish());
  return TrainingStrategy{Local{}};
}

Result<TrainingStrategy> federated_from_json(JsonObject& object) {
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
  return TrainingStrategy{std::move(federated)};
}

Result<TrainingStrategy> custom_from_json(JsonObject& object) {
  Custom custom;
  custom.coordinator = object.text("coordinator");
  if (object.ok() && (custom.coordinator.empty() || custom.coordinator.size() > kMostNameBytes)) {
    object.fail("coordinator", std::to_string(custom.coordinator.size()) +
                                   " bytes found, the name of a coordinator of 1 to " +
                                   std::to_string(kMostNameBytes) + " is wanted");
  }
  if (const Json* config = object.find("config")) custom.config = *config;
  MUSTER_TRY_STATUS(object.finish());
  return TrainingStrategy{std::move(custom)};
}

template <auto read>
Result<TrainingStrategy> as_strategy(JsonObject& object) {
  MUSTER_TRY(auto strategy, read(object));
  return TrainingStrategy{std::move(strategy)};
}

// In the order of the variant.
struct Type {
  const char* name;
  Result<TrainingStrategy> (*read)(JsonObject& object);
};
constexpr std::array<Type, std::variant_size_v<TrainingStrategy>> kTypes = {{
    {"Local", local_from_json},
    {"DataParallel", as_strategy<data_parallel_from_json>},
    {"ModelParallel", as_strategy<model_parallel_from_json>},
    {"Federated", federated_from_json},
    {"PopulationBased", as_strategy<population_based_from_json>},
    {"Custom", custom_from_json},
}};

Json to_json(const Local& /*strategy*/) {
  return Json::object();
}

Json to_json(const Federated& federated) {
  return {{"num_clients", federated.num_clients},
          {"rounds", federated.rounds},
          {"aggregation", to_json(federated.aggregation)},
          {"client_selection", to_json(federated.client_selection)}};
}

Json to_json(const Custom& custom) {
  return {{"coordinator", custom.coordinator}, {"config", custom.config}};
}

}  // namespace

std::string_view type_of(const TrainingStrategy& strategy) {
  return kTypes[strategy.index()].name;
}

Result<TrainingStrategy> strategy_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  std::vector<std::string> names;
  for (const Type& type : kTypes) names.emplace_back(type.name);
  const std::string name = object.choice("type", names);
  // Before the fields: those of a type that this build does not have are unknown too, and not the
  // point.
  if (!object.ok()) return object.finish().error();
  for (const Type& type : kTypes) {
    if (type.name == name) return type.read(object);
  }
  return Error{ErrorCode::kInternal, where + ": no reader for the type " + name};
}

Json to_json(const TrainingStrategy& strategy) {
  Json json = std::visit([](const auto& one) { return to_json(one); }, strategy);
  json["type"] = type_of(strategy);
  return json;
}

}  // namespace muster
