#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/strategy/pipeline/schedule.h"

namespace muster {

// Nodes of the model's graph that run at one worker.
struct Partition {
  std::vector<std::string> node_ids;  // at least one
  std::string target;                 // a worker's id, or a tag (StrategyContext::worker_for)
};

// How activations and gradients travel.
// Through a store of objects by digest.       {"method": "DataStore"}
struct DataStoreExchange {
  bool operator==(const DataStoreExchange&) const = default;
};
// From worker to worker, a batch at a time.   {"method": "Direct"}
struct DirectExchange {
  bool operator==(const DirectExchange&) const = default;
};
// The same in micro-batches that overlap (pipeline/schedule.h).
//   {"method": "Pipeline", "micro_batch_size": 8, "schedule": "1F1B"}    "GPipe" (default) or
//   "1F1B"
struct PipelineExchange {
  std::int64_t micro_batch_size = 1;  // 1 to 1,000,000
  PipelineSchedule schedule = PipelineSchedule::kGPipe;
  bool operator==(const PipelineExchange&) const = default;
};

// Nodes in no partition run at the coordinator.
//   {"type": "ModelParallel",
//    "partitions": [{"node_ids": ["conv1", "relu1"], "target": "gpu"}],
//    "communication": {"method": "Direct"}}
struct ModelParallel {
  std::vector<Partition> partitions = {};  // 1 to 1,000
  std::variant<DataStoreExchange, DirectExchange, PipelineExchange> communication =
      DirectExchange{};
};

// Reads all but "type". A node that two partitions claim, or one twice, is an error naming it;
// whether the model has the nodes is seen when it runs.
Result<ModelParallel> model_parallel_from_json(JsonObject& object);
Json to_json(const ModelParallel& strategy);

}  // namespace muster
