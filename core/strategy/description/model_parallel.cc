#include "core/strategy/description/model_parallel.h"

#include <map>
#include <utility>

namespace muster {
namespace {

using Communication = decltype(ModelParallel::communication);

constexpr std::size_t kMostPartitions = 1000;

Result<Communication> communication_from(const Json& json, const std::string& where) {
  Communication communication = DirectExchange{};
  JsonObject object(json, where);
  const std::string method = object.choice("method", {"DataStore", "Direct", "Pipeline"});
  if (!object.ok()) return object.finish().error();
  if (method == "DataStore") communication = DataStoreExchange{};
  if (method == "Pipeline") {
    PipelineExchange pipeline;
    pipeline.micro_batch_size = object.integer("micro_batch_size", {1, 1'000'000});
    if (object.ok() && object.find("schedule") != nullptr &&
        object.choice("schedule", {"GPipe", "1F1B"}) == "1F1B") {
      pipeline.schedule = PipelineSchedule::kOneForwardOneBackward;
    }
    communication = pipeline;
  }
  MUSTER_TRY_STATUS(object.finish());
  return communication;
}

Json to_json_of(const DataStoreExchange& /*method*/) {
  return {{"method", "DataStore"}};
}
Json to_json_of(const DirectExchange& /*method*/) {
  return {{"method", "Direct"}};
}
Json to_json_of(const PipelineExchange& method) {
  return {{"method", "Pipeline"},
          {"micro_batch_size", method.micro_batch_size},
          {"schedule", method.schedule == PipelineSchedule::kGPipe ? "GPipe" : "1F1B"}};
}

Error bad_field(const std::string& message) {
  return {ErrorCode::kInvalidArgument, message, "bad_field"};
}

Result<Partition> partition_from(const Json& json, const std::string& where) {
  Partition partition;
  JsonObject object(json, where);
  partition.node_ids = object.texts("node_ids", {});
  if (object.ok() && partition.node_ids.empty()) {
    object.fail("node_ids", "missing or empty, the ids of at least one node are wanted");
  }
  partition.target = object.text("target");
  if (object.ok() && partition.target.empty()) {
    object.fail("target", "empty, the id or a tag of a worker is wanted");
  }
  MUSTER_TRY_STATUS(object.finish());
  return partition;
}

Result<std::vector<Partition>> partitions_from(const Json& json, const std::string& where) {
  if (!json.is_array() || json.empty() || json.size() > kMostPartitions) {
    return bad_field(where + ": " + describe(json) + " found, a list of 1 to " +
                     std::to_string(kMostPartitions) + " partitions is wanted");
  }
  std::vector<Partition> partitions;
  std::map<std::string, std::string> claimed;  // node to partition
  for (const Json& one : json) {
    const std::string at = where + "[" + std::to_string(partitions.size()) + "]";
    MUSTER_TRY(Partition partition, partition_from(one, at));
    for (const std::string& node : partition.node_ids) {
      const auto [place, fresh] = claimed.emplace(node, at);
      if (!fresh) {
        return bad_field(at + ".node_ids: the node " + describe(Json(node)) +
                         " is claimed already, by " + place->second);
      }
    }
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

}  // namespace

Result<ModelParallel> model_parallel_from_json(JsonObject& object) {
  ModelParallel strategy;
  const Json& partitions = object.value("partitions");
  const Json* communication = object.find("communication");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(strategy.partitions, partitions_from(partitions, object.where() + ".partitions"));
  if (communication != nullptr) {
    MUSTER_TRY(strategy.communication,
               communication_from(*communication, object.where() + ".communication"));
  }
  return strategy;
}

Json to_json(const ModelParallel& strategy) {
  Json partitions = Json::array();
  for (const Partition& partition : strategy.partitions) {
    partitions.push_back({{"node_ids", partition.node_ids}, {"target", partition.target}});
  }
  return {{"partitions", std::move(partitions)},
          {"communication", std::visit([](const auto& method) { return to_json_of(method); },
                                       strategy.communication)}};
}

}  // namespace muster
