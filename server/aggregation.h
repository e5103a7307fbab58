#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/encoding/update_encoding.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/strategy/job.h"
#include "core/tensor/state.h"
#include "storage/rows.h"
#include "storage/state_files.h"
#include "storage/update_files.h"

namespace muster {

// A job's aggregation with all the numbers of the job that it computes with. A value: it goes to
// the threads that check updates and to the one that aggregates.
struct JobAggregation {
  AggregationSettings rule;
  UpdateEncoding encoding;
  std::int64_t population = 1;
  double local_lr = 0;
  double local_momentum = 0;
  double local_mu = 0;

  // Views of the two states; rule_state may be null.
  AggregationBase base(const StateDict& global, const StateDict* rule_state) const;
};
JobAggregation aggregation_of(const JobDescription& job);

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

// Whether the rule has what it needs of an update beside its values (steps, the initial loss).
// Errors: as Aggregator::validate.
Status check_for_rule(const JobAggregation& job, const StateDict& global,
                      const Contribution& contribution);

// The outcome's report in numbers, for a round's metrics: {"selected": 5, "clipped": 2}.
Json report_counts(const Json& report);

}  // namespace muster
