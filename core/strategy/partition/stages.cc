#include "core/strategy/partition/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace muster {
namespace {

Error bad_strategy(std::size_t partition, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("ModelParallel: partitions[{}]: {}", partition, what), "bad_strategy"};
}

// A few of the ids that there are, for an error.
std::string some_ids(const Graph& graph) {
  constexpr std::size_t kMost = 20;
  std::string ids;
  for (const GraphNode& node : graph.nodes()) {
    if (&node == &graph.nodes()[std::min(kMost, graph.nodes().size() - 1)] &&
        graph.nodes().size() > kMost) {
      return ids + ", ...";
    }
    ids += (ids.empty() ? "" : ", ") + node.id;
  }
  return ids;
}

}  // namespace

Result<std::vector<std::int64_t>> places_of_nodes(const Graph& graph, const ModelParallel& strategy,
                                                  const StrategyContext& context) {
  std::vector<std::int64_t> places(graph.nodes().size(), kCoordinator);
  std::map<int, std::size_t> claimed;
  for (std::size_t i = 0; i < strategy.partitions.size(); ++i) {
    const Partition& partition = strategy.partitions[i];
    MUSTER_TRY_IN(fmt::format("ModelParallel: partitions[{}]", i), const std::int64_t worker,
                  context.worker_for(partition.target));
    for (const std::string& id : partition.node_ids) {
      const int node = graph.find(id);
      const std::string name = describe(Json(id));
      if (node < 0) {
        return bad_strategy(
            i, fmt::format("the model has no node {}; its nodes are {}", name, some_ids(graph)));
      }
      const auto [at, fresh] = claimed.emplace(node, i);
      if (!fresh) {
        return bad_strategy(
            i, fmt::format("the node {} is claimed already, by partitions[{}]", name, at->second));
      }
      places[static_cast<std::size_t>(node)] = worker;
    }
  }
  return places;
}

std::vector<Stage> stages_of(const Graph& graph, std::span<const std::int64_t> places) {
  std::vector<std::int64_t> levels(graph.nodes().size(), 0);
  // By level, then by place. An edge within a place never goes down a level, one to another place
  // always up: so stages depend on earlier ones only.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::string>> groups;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const int input : graph.nodes()[i].inputs) {
      if (input == GraphNode::kInput) continue;
      const auto from = static_cast<std::size_t>(input);
      levels[i] = std::max(levels[i], levels[from] + (places[from] == places[i] ? 0 : 1));
    }
    groups[{levels[i], places[i]}].push_back(graph.nodes()[i].id);
  }
  std::vector<Stage> stages;
  std::map<std::int64_t, std::int64_t> count;
  for (auto& [level_and_place, nodes] : groups) {
    const std::int64_t place = level_and_place.second;
    stages.push_back({.place = place, .index = count[place]++, .nodes = std::move(nodes)});
  }
  return stages;
}

Result<Wiring> wire(const Graph& graph, std::span<const PartitionEnds> ends) {
  Wiring wiring;
  wiring.tensors.push_back({.name = "input"});
  std::map<std::string, std::size_t> index{{"input", 0}};
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    auto& outputs = wiring.outputs.emplace_back();
    for (const std::string& name : ends[stage].outputs) {
      index[name] = wiring.tensors.size();
      outputs.push_back(wiring.tensors.size());
      wiring.tensors.push_back({.name = name, .producer = static_cast<std::int64_t>(stage)});
    }
  }
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    auto& inputs = wiring.inputs.emplace_back();
    for (const std::string& name : ends[stage].inputs) {
      const auto found = index.find(name);
      if (found == index.end() ||
          wiring.tensors[found->second].producer >= static_cast<std::int64_t>(stage)) {
        return Error{ErrorCode::kInternal,
                     fmt::format("stage {} wants {}, which no earlier stage gives", stage, name)};
      }
      inputs.push_back(found->second);
      wiring.tensors[found->second].consumers.push_back(static_cast<std::int64_t>(stage));
    }
  }
  wiring.output = index.at(graph.node(graph.output()).id);
  wiring.tensors[wiring.output].consumers.push_back(wiring.loss());
  return wiring;
}

}  // namespace muster
