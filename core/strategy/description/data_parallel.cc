#include "core/strategy/description/data_parallel.h"

#include <string_view>
#include <utility>

namespace muster {
namespace {

using Aggregation = decltype(DataParallel::aggregation);

constexpr JsonObject::IntegerRange kReplicas{1, 10'000};
constexpr std::int64_t kMostShare = 1'000'000;

Result<Aggregation> aggregation_from(const Json& json, const std::string& where) {
  Aggregation aggregation;
  JsonObject object(json, where);
  const std::string method =
      object.choice("method", {"AllReduce", "ParameterServer", "Decentralized"});
  if (!object.ok()) return object.finish().error();
  if (method == "ParameterServer") {
    aggregation = ParameterServer{.max_staleness = object.integer("max_staleness", 0, {0, 1000})};
  } else if (method == "Decentralized") {
    const std::string name = object.text("topology");
    if (!object.ok()) return object.finish().error();
    MUSTER_TRY(const Topology topology, topology_from(name, where + ".topology"));
    aggregation = Decentralized{.topology = topology};
  }
  MUSTER_TRY_STATUS(object.finish());
  return aggregation;
}

Json to_json_of(const AllReduce& /*method*/) {
  return {{"method", "AllReduce"}};
}
Json to_json_of(const ParameterServer& method) {
  return {{"method", "ParameterServer"}, {"max_staleness", method.max_staleness}};
}
Json to_json_of(const Decentralized& method) {
  return {{"method", "Decentralized"}, {"topology", to_string(method.topology)}};
}

// Nothing when the first error is in `object`.
std::vector<std::int64_t> read_shares(JsonObject& object, const Json& json, std::int64_t replicas) {
  const std::string wanted = "a list of num_replicas, " + std::to_string(replicas) +
                             ", whole numbers from 1 to " + std::to_string(kMostShare) +
                             " is wanted";
  if (!json.is_array() || json.size() != static_cast<std::size_t>(replicas)) {
    object.fail("shares", describe(json) + " found, " + wanted);
    return {};
  }
  std::vector<std::int64_t> shares;
  for (const Json& share : json) {
    const auto value = share.is_number_integer() ? share.get<std::int64_t>() : 0;
    if (value < 1 || value > kMostShare) {
      object.fail("shares", describe(share) + " found in it, " + wanted);
      return {};
    }
    shares.push_back(value);
  }
  return shares;
}

}  // namespace

Result<DataParallel> data_parallel_from_json(JsonObject& object) {
  DataParallel strategy;
  strategy.num_replicas = object.integer("num_replicas", kReplicas);
  if (!object.ok()) return object.finish().error();
  strategy.min_replicas =
      object.integer("min_replicas", strategy.num_replicas, {1, strategy.num_replicas});
  if (const Json* json = object.find("shares")) {
    strategy.shares = read_shares(object, *json, strategy.num_replicas);
  }
  if (const Json* json = object.find("aggregation")) {
    MUSTER_TRY(strategy.aggregation, aggregation_from(*json, object.where() + ".aggregation"));
  }
  MUSTER_TRY_STATUS(object.finish());
  return strategy;
}

Json to_json(const DataParallel& strategy) {
  Json json{{"num_replicas", strategy.num_replicas},
            {"min_replicas", strategy.min_replicas},
            {"aggregation", std::visit([](const auto& method) { return to_json_of(method); },
                                       strategy.aggregation)}};
  if (!strategy.shares.empty()) json["shares"] = strategy.shares;
  return json;
}

}  // namespace muster
