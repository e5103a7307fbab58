#pragma once

#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/graph.h"

namespace muster {

// Turns a job's "model" into its resolved form, {"graph": canonical graph}. It takes
//   {"graph": {...}}                                      checked by building it
//   {"preset": "2nn", "input": [28, 28], "classes": 10}   presets.h has their names and options
// Errors: as Graph::from_json; an unknown preset lists the known ones.
Result<Json> resolve_model(const Json& model, const std::string& where = "model");

// The graph of a resolved model.
Result<Graph> graph_from_model(const Json& model, const std::string& where = "model");

}  // namespace muster
