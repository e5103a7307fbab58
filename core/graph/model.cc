#include "core/graph/model.h"

#include <string_view>
#include <vector>

namespace muster {
namespace {

Json dense(std::string_view id, std::int64_t units) {
  return {{"id", id}, {"op", "dense"}, {"units", units}};
}

Json node(std::string_view id, std::string_view op) {
  return {{"id", id}, {"op", op}};
}

Json two_hidden_layers(std::int64_t classes) {
  return {node("flat", "flatten"), dense("fc1", 200),     node("relu1", "relu"),
          dense("fc2", 200),       node("relu2", "relu"), dense("fc3", classes)};
}

Json logistic(std::int64_t classes) {
  return {node("flat", "flatten"), dense("fc1", classes)};
}

struct Preset {
  std::string_view name;
  Json (*nodes)(std::int64_t classes);
};
constexpr Preset kPresets[] = {{"2nn", two_hidden_layers}, {"logistic", logistic}};

Result<Json> graph_of_preset(const Json& model, const std::string& where) {
  JsonObject object(model, where);
  std::vector<std::string> known;
  for (const Preset& preset : kPresets) known.emplace_back(preset.name);
  const std::string name = object.choice("preset", known);
  const std::int64_t classes = object.integer("classes", 10, {2, 1'000'000});
  const Json* input = object.find("input");
  MUSTER_TRY_STATUS(object.finish());
  Json nodes;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) nodes = preset.nodes(classes);
  }
  return Json{{"input", {{"shape", input != nullptr ? *input : Json{28, 28}}}},
              {"nodes", std::move(nodes)},
              {"loss", {{"type", "softmax_cross_entropy"}}}};
}

}  // namespace

Result<Json> resolve_model(const Json& model, const std::string& where) {
  if (model.is_object() && model.contains("preset")) {
    MUSTER_TRY(const Json description, graph_of_preset(model, where));
    MUSTER_TRY(const Graph graph, Graph::from_json(description, where));
    return Json{{"graph", graph.to_json()}};
  }
  if (model.is_object() && !model.contains("graph")) {
    return Error{
        ErrorCode::kInvalidArgument,
        where + ": found " + describe(model) + ", wanted {\"preset\": NAME} or {\"graph\": {...}}",
        "bad_field"};
  }
  MUSTER_TRY(const Graph graph, graph_from_model(model, where));
  return Json{{"graph", graph.to_json()}};
}

Result<Graph> graph_from_model(const Json& model, const std::string& where) {
  JsonObject object(model, where);
  const Json& graph = object.value("graph");
  MUSTER_TRY_STATUS(object.finish());
  return Graph::from_json(graph, where + ".graph");
}

}  // namespace muster
