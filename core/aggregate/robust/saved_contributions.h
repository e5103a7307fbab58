#pragma once

#include <span>
#include <vector>

#include "core/aggregate/aggregator.h"

namespace muster {

// The saved form of an aggregate that keeps its contributions: a safetensors file with the F32
// tensors "c<i>" [elements], i in order of the contributors' names and filled up with zeros to one
// length, and the metadatum "aggregate":
//   {"format": 1, "rule": the settings, "content": "state" | "delta",
//    "base": digest of the global state, "population": N,
//    "contributors": [{"name", "examples", "steps", "staleness", "initial_loss"?}, ...]}

// What an aggregate was made from, as it stands in the metadata.
Json contributions_identity(const AggregationSettings& settings, const AggregationBase& base);

// Values go to the sink as they lie, or decoded block by block.
// Errors: the sink's.
Status write_contributions(const Json& identity, std::span<const Contribution> contributions,
                           std::int64_t elements, const Aggregator::ByteSink& sink);

// The contributions in order of their names, with layout `global`'s. Their values stay in `saved`
// and were not looked at.
// Errors: kDataLoss, reason "bad_aggregate"; kInvalidArgument, "other_rule".
Result<std::vector<Contribution>> read_contributions(ByteView saved, const Json& identity,
                                                     const StateDict& global);

}  // namespace muster
