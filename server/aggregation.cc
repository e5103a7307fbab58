#include "server/aggregation.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/aggregate/encoding/decode.h"
#include "core/protocol/messages.h"

namespace muster {
namespace {

Result<ValuesPtr> open_stored(const UpdateFiles& updates, const StateFiles& states,
                              const UpdateRow& update, const UpdateEncoding& encoding,
                              const LayoutPtr& layout) {
  MUSTER_TRY(MappedFile file, updates.map({update.job, update.round, update.attempt, update.device,
                                           *update.digest}));
  if (sha256(file.bytes()) != *update.digest) {
    return Error{ErrorCode::kDataLoss,
                 fmt::format("the stored update of {} for round {} of {} no longer has the digest "
                             "it was acknowledged with",
                             update.device, update.round, update.job),
                 "state_damaged"};
  }
  file.release(0, file.bytes().size());
  MUSTER_TRY_IN(update.device, ValuesPtr values,
                open_update(std::move(file), encoding, layout, states.spool_folder()));
  return values;
}

}  // namespace

Contribution contribution_of(const UpdateRow& update, ValuesPtr values) {
  Contribution contribution;
  contribution.contributor = update.device;
  contribution.values = std::move(values);
  contribution.examples = update.examples;
  contribution.steps = update.steps;
  contribution.staleness = update.staleness;
  const auto loss = update.metrics.find(protocol::kInitialLoss);
  if (loss != update.metrics.end() && loss->is_number()) {
    contribution.initial_loss = loss->get<double>();
  }
  return contribution;
}

Result<AggregatedRound> aggregate_round(const UpdateFiles& updates, const StateFiles& states,
                                        const StateDict& global, const RoundAggregation& round,
                                        Workers& workers, std::stop_token stop) {
  std::optional<StateDict> rule_state;
  if (round.rule_state) {
    MUSTER_TRY_IN("what the aggregation keeps", rule_state, states.read(*round.rule_state));
  }
  const AggregationBase base = round.job.base(global, rule_state ? &*rule_state : nullptr);
  MUSTER_TRY(const std::unique_ptr<Aggregator> aggregator, make_aggregator(round.job.rule, base));
  for (const UpdateRow& update : round.updates) {
    if (stop.stop_requested()) return Error{ErrorCode::kCancelled, "the server is stopping"};
    MUSTER_TRY(ValuesPtr values,
               open_stored(updates, states, update, round.job.encoding, global.layout_ptr()));
    Contribution contribution = contribution_of(update, std::move(values));
    contribution.known_finite = true;  // the intake looked
    MUSTER_TRY_STATUS(aggregator->accumulate(std::move(contribution)));
  }
  MUSTER_TRY(const Outcome outcome, aggregator->finish(&workers));
  AggregatedRound aggregated;
  MUSTER_TRY(aggregated.state, states.write(outcome.global));
  if (outcome.rule_state) {
    MUSTER_TRY(aggregated.rule_state, states.write(*outcome.rule_state));
  }
  aggregated.report = outcome.report;
  return aggregated;
}

}  // namespace muster
