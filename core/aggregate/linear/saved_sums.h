#pragma once

#include <string>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/linear/totals.h"

namespace muster {

// The saved form of a linear aggregate: a safetensors file with F64 tensors "high/<i>" and
// "low/<i>" [elements], the double-doubles of sum i (none when nobody is in), and the metadatum
// "aggregate":
//   {"format": 1, "rule": the settings, "content": "state" | "delta",
//    "base": digest of the global state, "rule_state": digest of the rule's state or "",
//    "population": N, "local": {"lr", "momentum", "mu"},
//    "contributors": [names, rising], "clipped": [...], "filtered": [...],
//    "divisor": dd, "weights": [a dd a sum], "scalars": [dd, ...]}
// where a dd is 32 hexadecimal digits: the bits of the high and the low double.

// What an aggregate was made from, as it stands in the metadata.
Json identity_of(const AggregationSettings& settings, const AggregationBase& base);

struct SavedSums {
  FoldedSums folded;
  std::vector<std::string> contributors;
};

// Errors: the sink's.
Status write_sums(const Json& identity, const std::vector<std::string>& contributors,
                  const FoldedSums& folded, std::int64_t elements,
                  const Aggregator::ByteSink& sink);

// Errors: kDataLoss, reason "bad_aggregate"; kInvalidArgument, "other_rule".
Result<SavedSums> read_sums(ByteView saved, const Json& identity, std::size_t num_sums,
                            std::size_t num_scalars, std::int64_t elements);

}  // namespace muster
