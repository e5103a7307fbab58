#pragma once

#include <string>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/aggregate/settings.h"
#include "core/aggregate/update_check.h"
#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/round/round_settings.h"
#include "core/train/settings.h"

// What an aggregation asks of the rest of its job, found at submission and not in the first round.
// Errors of all: kInvalidArgument, reason "bad_field"; the message begins with the field's path.
namespace muster {

// For round_settings_from_json.
AggregationNeeds aggregation_needs(const AggregationSettings& aggregation);

// Whether every round that may end, with as few as min_updates or as many as target_updates, is one
// that the rule can work with.
Status check_round(const AggregationSettings& aggregation, const RoundSettings& round,
                   const std::string& where);

// JsonMean is the rule of models that are JSON states, and their only one.
Status check_kind_of_model(const AggregationSettings& aggregation, const Json& model,
                           const std::string& model_path, const std::string& method_path);

// A rule that goes further than its updates did would leave parameters that no gradient moves (the
// statistics of batch normalisation) where they cannot be: a variance below 0.
Status check_untrained(const AggregationSettings& aggregation, const Graph& graph,
                       const std::string& method_path);

// Reads "checks". Rules that square changes or go further than they did have a limit on a change's
// norm by default: the largest numbers of float32 would have no square and end every round. Of JSON
// states there is no norm of a change.
Result<UpdateLimits> limits_for(const AggregationSettings& aggregation, const Json& json,
                                const std::string& where);

// Asynchronous rounds invite a device when it comes: nothing to draw a sample from.
Status check_selection(const AggregationSettings& aggregation, const ClientSelection& selection,
                       const std::string& where);

// SCAFFOLD, FedNova and q-FedAvg compute with the local learning rate: they want plain steps of
// one rate (SGD, a constant schedule, no clipping), and only so much momentum as their formula has.
Status check_local(const AggregationSettings& aggregation, const LocalSettings& local,
                   const std::string& where);

// mu of local training: FedProx's own, FedDyn's alpha, else 0.
double local_mu(const AggregationSettings& aggregation);

// Reads "encoding". FedBuff adds changes to a global state that none of them began from, so there
// "content" is "delta", and that is its default. JSON states travel whole, as float32.
Result<UpdateEncoding> encoding_for(const AggregationSettings& aggregation, const Json& json,
                                    const std::string& where);

}  // namespace muster
