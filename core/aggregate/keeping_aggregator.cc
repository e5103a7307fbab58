#include "core/aggregate/keeping_aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate/blocks.h"
#include "core/aggregate/robust/saved_contributions.h"
#include "core/base/bytes.h"

namespace muster {

KeepingAggregator::KeepingAggregator(const AggregationSettings& settings,
                                     const AggregationBase& base,
                                     std::unique_ptr<const KeepingRule> rule)
    : settings_(settings),
      base_(base),
      rule_(std::move(rule)),
      contributions_(base.global->layout()) {}

Error KeepingAggregator::finished_error() const {
  return {ErrorCode::kFailedPrecondition,
          fmt::format("{}: finished already; one object serves one round", method_name(settings_)),
          "finished"};
}

bool KeepingAggregator::same_origin(const KeepingAggregator& other) const {
  return to_json(settings_) == to_json(other.settings_) && base_.content == other.base_.content &&
         base_.population == other.base_.population &&
         (base_.global == other.base_.global || *base_.global == *other.base_.global);
}

bool KeepingAggregator::is_held(const Contribution& contribution) const {
  return held_.contains(contribution.values.get());
}

Status KeepingAggregator::validate(const Contribution& contribution) const {
  if (finished_) return finished_error();
  MUSTER_TRY_STATUS(contributions_.check(contribution));
  return rule_->check(contribution);
}

Status KeepingAggregator::accumulate(Contribution contribution) {
  MUSTER_TRY_STATUS(validate(contribution));
  contributions_.add(std::move(contribution));
  return {};
}

Status KeepingAggregator::merge(Aggregator& other) {
  auto* same = dynamic_cast<KeepingAggregator*>(&other);
  if (same == nullptr || !same_origin(*same)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: the other aggregate has another rule, content or base",
                             describe(settings_)),
                 "other_rule"};
  }
  if (finished_ || same->finished_) return finished_error();
  if (same == this) {
    return Error{ErrorCode::kAlreadyExists,
                 fmt::format("{}: an aggregate is not merged with itself", describe(settings_)),
                 "already_contributed"};
  }
  MUSTER_TRY_STATUS(contributions_.check_disjoint(same->contributions_));
  contributions_.take(same->contributions_);
  held_.merge(same->held_);
  same->finished_ = true;
  return {};
}

ValuesPtr KeepingAggregator::copy_of(const UpdateValues& values, Workers& workers) const {
  StateDict copy(base_.global->layout_ptr());
  float* const to = copy.values().data();
  workers.for_each(values.size(), 16 * kBlock, [&](std::int64_t begin, std::int64_t end, int) {
    const float* from = values.read(begin, end - begin, to + begin);
    if (from != to + begin) std::copy_n(from, end - begin, to + begin);
    values.release(begin, end - begin);
  });
  return values_of(std::move(copy));
}

Status KeepingAggregator::fold(Workers* workers) {
  if (finished_) return finished_error();
  for (const Contribution& contribution : contributions_.all()) {
    if (is_held(contribution)) continue;
    MUSTER_TRY_STATUS(contributions_.check_finite(contribution));
    MUSTER_TRY_STATUS(rule_->check(contribution));
  }
  Workers alone(1);
  Contributions folded(base_.global->layout());
  for (const Contribution& contribution : contributions_.all()) {
    Contribution copy = contribution;
    if (!is_held(contribution)) {
      copy.values = copy_of(*contribution.values, workers == nullptr ? alone : *workers);
      copy.known_finite = true;
      held_.insert(copy.values.get());
    }
    folded.add(std::move(copy));
  }
  contributions_ = std::move(folded);
  return {};
}

Status KeepingAggregator::save(const ByteSink& sink, Workers* workers) {
  MUSTER_TRY_STATUS(fold(workers));
  return write_contributions(contributions_identity(settings_, base_), contributions_.all(),
                             base_.global->layout().num_elements(), sink);
}

Status KeepingAggregator::restore(ByteView saved) {
  MUSTER_TRY(std::vector<Contribution> contributions,
             read_contributions(saved, contributions_identity(settings_, base_), *base_.global));
  for (Contribution& contribution : contributions) {
    if (auto status = accumulate(std::move(contribution)); !status) {
      return Error{ErrorCode::kDataLoss, "saved aggregate: " + status.error().message,
                   "bad_aggregate"};
    }
  }
  return {};
}

Result<Outcome> KeepingAggregator::finish(Workers* workers) {
  if (finished_) return finished_error();
  Workers alone(1);
  MUSTER_TRY(Outcome outcome,
             rule_->run(contributions_.all(), workers == nullptr ? alone : *workers));
  finished_ = true;
  return outcome;
}

}  // namespace muster
