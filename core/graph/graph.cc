#include "core/graph/graph.h"

#include "core/base/random.h"

namespace muster {

std::string parameter_name(const GraphNode& node, const ParameterSpec& parameter) {
  return node.id + "." + parameter.name;
}

int Graph::find(std::string_view id) const {
  if (id == "input") return GraphNode::kInput;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].id == id) return static_cast<int>(i);
  }
  return GraphNode::kInput - 1;
}

Json Graph::to_json() const {
  Json nodes = Json::array();
  for (const GraphNode& each : nodes_) {
    Json json = each.op->attributes();
    json["id"] = each.id;
    json["op"] = each.op_name;
    Json inputs = Json::array();
    for (const int input : each.inputs) {
      inputs.push_back(input == GraphNode::kInput ? "input" : node(input).id);
    }
    json["inputs"] = std::move(inputs);
    nodes.push_back(std::move(json));
  }
  return {{"input", {{"shape", input_shape_}}},
          {"nodes", std::move(nodes)},
          {"output", node(output_).id},
          {"loss", loss_->to_json()}};
}

StateDict Graph::initial_state(std::uint64_t seed) const {
  StateDict state(layout_);
  for (const GraphNode& each : nodes_) {
    for (const ParameterSpec& parameter : each.op->plan().parameters) {
      const std::string name = parameter_name(each, parameter);
      Random random(derive_seed(seed, {"init", name}));
      const double value = parameter.init.value;
      for (float& element : state.tensor(name)) {
        switch (parameter.init.kind) {
          case Initializer::Kind::kConstant:
            element = static_cast<float>(value);
            break;
          case Initializer::Kind::kUniform:
            element = static_cast<float>((2.0 * random.uniform() - 1.0) * value);
            break;
          case Initializer::Kind::kNormal:
            element = static_cast<float>(random.normal() * value);
            break;
        }
      }
    }
  }
  return state;
}

}  // namespace muster
