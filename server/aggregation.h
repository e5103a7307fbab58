#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/strategy/job_aggregation.h"
#include "core/tensor/state.h"
#include "storage/rows.h"
#include "storage/state_files.h"
#include "storage/update_files.h"

namespace muster {

// What counts of an update, as its row has it.
//   values  may be null for what needs none
Contribution contribution_of(const UpdateRow& update, ValuesPtr values);

// What comes of a round; both states are durable.
struct AggregatedRound {
  Digest state;
  std::optional<Digest> rule_state;
  Json report;
};

// One round to aggregate.
struct RoundAggregation {
  JobAggregation job;
  Digest global;                     // the round's base
  std::optional<Digest> rule_state;  // kept of the round before
  std::vector<UpdateRow> updates;    // accepted, their bodies in the UpdateFiles
};

// The next global state out of the updates of a round. Each is checked against its digest and then
// read through a memory map, so memory is that of the rule and some pages. The same round gives the
// same bits, after a restart too. Errors: those of Aggregator and open_update; kNotFound
// "artefact_missing", kDataLoss "state_damaged" for a body or rule state that is gone or damaged;
// kCancelled; of StateFiles::write.
Result<AggregatedRound> aggregate_round(const UpdateFiles& updates, const StateFiles& states,
                                        const StateDict& global, const RoundAggregation& round,
                                        Workers& workers, std::stop_token stop);

}  // namespace muster
