#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/graph.h"
#include "core/tensor/json_state.h"
#include "core/tensor/state.h"

namespace muster {

// Turns a job's "model" into its resolved form, which is {"graph": canonical graph} or
// {"json": state}. It takes
//   {"graph": {...}}                                      checked by building it
//   {"preset": "2nn", "input": [28, 28], "classes": 10}   presets.h has their names and options
//   {"json": {...}}                                       the initial state of a model that is JSON
//                                                         (core/tensor/json_state.h)
//   {"statistics": {"features": 4, "classes": 3}}         such a state (core/graph/statistics.h)
// Errors: as Graph::from_json; an unknown preset lists the known ones; as JsonTemplate::create.
Result<Json> resolve_model(const Json& model, const std::string& where = "model");

// Whether a model, resolved or not, is a JSON state and no graph.
bool is_json_model(const Json& model);

// The graph of a resolved model. Errors: kInvalidArgument, reason "bad_field"; also where the model
// is a JSON state.
Result<Graph> graph_from_model(const Json& model, const std::string& where = "model");

// The JSON state of a resolved model, as it begins. Errors: as above; also where it is a graph.
Result<JsonTemplate> json_from_model(const Json& model, const std::string& where = "model");

// The layout of a resolved model's states, whichever it is.
Result<LayoutPtr> layout_of_model(const Json& model, const std::string& where = "model");

// The state that a job begins from: of a graph drawn from the job's seed, else as it is written.
Result<StateDict> initial_state_of(const Json& model, std::uint64_t seed);

}  // namespace muster
