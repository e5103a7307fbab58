#include "core/graph/summary.h"

#include "core/graph/graph_run.h"

namespace muster {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 56;

NodeSummary summarize_node(const Graph& graph, const GraphNode& node, std::int64_t batch) {
  const OpPlan& plan = node.op->plan();
  NodeSummary summary;
  summary.id = node.id;
  summary.op = node.op_name;
  for (const int input : node.inputs) {
    summary.inputs.push_back(input == GraphNode::kInput ? "input" : graph.node(input).id);
  }
  summary.output = node.shape();
  for (const ParameterSpec& parameter : plan.parameters) {
    summary.parameters += graph.layout()->find(parameter_name(node, parameter))->size;
  }
  summary.multiply_adds = node.op->multiply_adds();
  const std::int64_t floats = batch * (node.size + plan.saved_per_example) + plan.saved_fixed;
  summary.kept_bytes = floats * static_cast<std::int64_t>(sizeof(float));
  return summary;
}

}  // namespace

Result<GraphSummary> summarize(const Graph& graph, std::int64_t batch) {
  MUSTER_TRY(const std::uint64_t workspace, GraphRun::measure(graph, {.max_batch = batch}));
  // First, so that no size below leaves its range.
  if (workspace > kMostBytes) {
    return Error{ErrorCode::kResourceExhausted,
                 "a batch of " + std::to_string(batch) + " takes more than 2^56 bytes",
                 "workspace"};
  }
  GraphSummary summary;
  summary.input = graph.input_shape();
  summary.batch = batch;
  for (const GraphNode& node : graph.nodes()) {
    summary.nodes.push_back(summarize_node(graph, node, batch));
    summary.multiply_adds += summary.nodes.back().multiply_adds;
  }
  summary.parameters = graph.layout()->num_elements();
  summary.untrained = summary.parameters;
  for (const Graph::Range& range : graph.trained_ranges()) summary.untrained -= range.size;
  summary.state_bytes = summary.parameters * static_cast<std::int64_t>(sizeof(float));
  summary.workspace_bytes = static_cast<std::int64_t>(workspace);
  summary.training_bytes = 2 * summary.state_bytes + summary.workspace_bytes;
  return summary;
}

Json to_json(const GraphSummary& summary) {
  Json nodes = Json::array();
  for (const NodeSummary& node : summary.nodes) {
    nodes.push_back({{"id", node.id},
                     {"op", node.op},
                     {"inputs", node.inputs},
                     {"output", node.output},
                     {"parameters", node.parameters},
                     {"multiply_adds", node.multiply_adds},
                     {"kept_bytes", node.kept_bytes}});
  }
  return {{"input", summary.input},
          {"batch", summary.batch},
          {"nodes", std::move(nodes)},
          {"parameters", summary.parameters},
          {"untrained", summary.untrained},
          {"multiply_adds", summary.multiply_adds},
          {"state_bytes", summary.state_bytes},
          {"workspace_bytes", summary.workspace_bytes},
          {"training_bytes", summary.training_bytes}};
}

}  // namespace muster
