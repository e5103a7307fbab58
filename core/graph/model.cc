#include "core/graph/model.h"

#include <utility>

#include "core/base/random.h"
#include "core/graph/presets.h"
#include "core/graph/statistics.h"

namespace muster {
namespace {

bool has(const Json& model, const char* key) {
  return model.is_object() && model.contains(key);
}

Result<Json> resolve_json(const Json& model, const std::string& where) {
  MUSTER_TRY(const JsonTemplate state, json_from_model(model, where));
  return Json{{"json", state.json()}};
}

}  // namespace

Result<Json> resolve_model(const Json& model, const std::string& where) {
  if (has(model, "preset")) {
    MUSTER_TRY(const Json description, graph_of_preset(model, where));
    MUSTER_TRY(const Graph graph, Graph::from_json(description, where));
    return Json{{"graph", graph.to_json()}};
  }
  if (has(model, "json")) return resolve_json(model, where);
  if (has(model, "statistics")) {
    MUSTER_TRY(Json state, statistics_state(model, where));
    return Json{{"json", std::move(state)}};
  }
  if (model.is_object() && !model.contains("graph")) {
    return Error{ErrorCode::kInvalidArgument,
                 where + ": found " + describe(model) +
                     ", wanted {\"preset\": NAME}, {\"graph\": {...}}, {\"json\": {...}} or "
                     "{\"statistics\": {...}}",
                 "bad_field"};
  }
  MUSTER_TRY(const Graph graph, graph_from_model(model, where));
  return Json{{"graph", graph.to_json()}};
}

bool is_json_model(const Json& model) {
  return has(model, "json") || has(model, "statistics");
}

Result<Graph> graph_from_model(const Json& model, const std::string& where) {
  if (is_json_model(model)) {
    return Error{ErrorCode::kInvalidArgument,
                 where + ": found a JSON state, wanted a graph or preset", "bad_field"};
  }
  JsonObject object(model, where);
  const Json& graph = object.value("graph");
  MUSTER_TRY_STATUS(object.finish());
  return Graph::from_json(graph, where + ".graph");
}

Result<JsonTemplate> json_from_model(const Json& model, const std::string& where) {
  if (has(model, "graph")) {
    return Error{ErrorCode::kInvalidArgument, where + ": found a graph, wanted a JSON state",
                 "bad_field"};
  }
  JsonObject object(model, where);
  const Json& state = object.value("json");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY_IN(where + ".json", JsonTemplate made, JsonTemplate::create(state));
  return made;
}

Result<LayoutPtr> layout_of_model(const Json& model, const std::string& where) {
  if (is_json_model(model)) {
    MUSTER_TRY(const JsonTemplate state, json_from_model(model, where));
    return state.layout();
  }
  MUSTER_TRY(const Graph graph, graph_from_model(model, where));
  return graph.layout();
}

Result<StateDict> initial_state_of(const Json& model, std::uint64_t seed) {
  if (is_json_model(model)) {
    MUSTER_TRY(const JsonTemplate state, json_from_model(model));
    return state.pack(state.json());
  }
  MUSTER_TRY(const Graph graph, graph_from_model(model));
  return graph.initial_state(derive_seed(seed, {"initial state"}));
}

}  // namespace muster
