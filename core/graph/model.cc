#include "core/graph/model.h"

#include "core/graph/presets.h"

namespace muster {

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
