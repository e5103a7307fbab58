#pragma once

#include <cstdint>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/encoding/update_encoding.h"
#include "core/base/error.h"
#include "core/strategy/job.h"
#include "core/tensor/state.h"
#include "core/train/drift_correction.h"

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

// Whether the rule has what it needs of an update beside its values (steps, the initial loss).
// Errors: as Aggregator::validate.
Status check_for_rule(const JobAggregation& job, const StateDict& global,
                      const Contribution& contribution);

// What a device does beside training under this rule: SCAFFOLD's and FedDyn's half, else none.
DriftCorrection drift_correction_of(const AggregationSettings& rule);

// The outcome's report in numbers, for a round's metrics: {"selected": 5, "clipped": 2}.
Json report_counts(const Json& report);

}  // namespace muster
