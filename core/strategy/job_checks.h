#pragma once

#include <string>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/aggregate/settings.h"
#include "core/base/error.h"
#include "core/round/round_settings.h"
#include "core/train/settings.h"

// What an aggregation asks of the rest of its job, found at submission and not in the first round.
// Errors of all: kInvalidArgument, reason "bad_field"; the message begins with the field's path.
namespace muster {

// For round_settings_from_json.
AggregationNeeds aggregation_needs(const AggregationSettings& aggregation);

// Whether every round that may end, with as few as min_updates, is one that the rule can work with.
Status check_round(const AggregationSettings& aggregation, const RoundSettings& round,
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
// "content" is "delta", and that is its default.
Result<UpdateEncoding> encoding_for(const AggregationSettings& aggregation, const Json& json,
                                    const std::string& where);

}  // namespace muster
