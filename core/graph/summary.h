#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/graph.h"

namespace muster {

// What one node costs.
struct NodeSummary {
  std::string id;
  std::string op;
  std::vector<std::string> inputs;
  Shape output;
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;  // forward, for one example
  std::int64_t kept_bytes = 0;  // from forward to backward, for a batch: output and what is saved
};

// What a model costs, node by node and in all: plain data for tables.
struct GraphSummary {
  Shape input;
  std::vector<NodeSummary> nodes;  // in order of computation
  std::int64_t parameters = 0;
  std::int64_t untrained = 0;  // of these: running statistics and the like
  std::int64_t multiply_adds = 0;
  std::int64_t batch = 0;
  std::int64_t state_bytes = 0;      // the parameters, 4 bytes each
  std::int64_t workspace_bytes = 0;  // GraphRun's, for training on a batch
  // Parameters, their gradient and the workspace. What an optimiser carries from step to step comes
  // on top: SGD with momentum one more state, Adam two.
  std::int64_t training_bytes = 0;
};

// Takes no memory that grows with the batch. Errors: kInvalidArgument for a batch < 1;
// kResourceExhausted for one of over 2^56 bytes.
Result<GraphSummary> summarize(const Graph& graph, std::int64_t batch);

// {"input", "batch", "nodes": [{"id", "op", "inputs", "output", "parameters", "multiply_adds",
// "kept_bytes"}], "parameters", ...}
Json to_json(const GraphSummary& summary);

}  // namespace muster
