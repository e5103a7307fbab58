#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/aggregate/blocks.h"
#include "core/aggregate/contributions.h"
#include "core/aggregate/robust/robust.h"
#include "core/aggregate/robust/robust_rules.h"
#include "core/aggregate/robust/rows.h"
#include "core/aggregate/robust/saved_contributions.h"
#include "core/base/bytes.h"

namespace muster {
namespace {

class RobustAggregator final : public Aggregator {
 public:
  RobustAggregator(const AggregationSettings& settings, const AggregationBase& base)
      : settings_(settings), base_(base), contributions_(base.global->layout()) {}

  Status validate(const Contribution& contribution) const override {
    if (finished_) return finished_error();
    return contributions_.check(contribution);
  }

  Status accumulate(Contribution contribution) override {
    MUSTER_TRY_STATUS(validate(contribution));
    contributions_.add(std::move(contribution));
    return {};
  }

  Status merge(Aggregator& other) override {
    auto* same = dynamic_cast<RobustAggregator*>(&other);
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

  Status fold(Workers* workers) override {
    if (finished_) return finished_error();
    for (const Contribution& contribution : contributions_.all()) {
      if (!is_held(contribution)) MUSTER_TRY_STATUS(contributions_.check_finite(contribution));
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

  Status save(const ByteSink& sink, Workers* workers) override {
    MUSTER_TRY_STATUS(fold(workers));
    return write_contributions(contributions_identity(settings_, base_), contributions_.all(),
                               base_.global->layout().num_elements(), sink);
  }

  Status restore(ByteView saved) {
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

  Result<Outcome> finish(Workers* workers) override {
    if (finished_) return finished_error();
    Workers alone(1);
    MUSTER_TRY(Outcome outcome, run_robust_rule(settings_, base_, contributions_.all(),
                                                workers == nullptr ? alone : *workers));
    finished_ = true;
    return outcome;
  }

  std::int64_t num_contributors() const override { return contributions_.size(); }

 private:
  Error finished_error() const {
    return {
        ErrorCode::kFailedPrecondition,
        fmt::format("{}: finished already; one object serves one round", method_name(settings_)),
        "finished"};
  }

  bool same_origin(const RobustAggregator& other) const {
    return to_json(settings_) == to_json(other.settings_) && base_.content == other.base_.content &&
           base_.population == other.base_.population &&
           (base_.global == other.base_.global || *base_.global == *other.base_.global);
  }

  // Whether its values are a copy that this made.
  bool is_held(const Contribution& contribution) const {
    return held_.contains(contribution.values.get());
  }

  ValuesPtr copy_of(const UpdateValues& values, Workers& workers) const {
    StateDict copy(base_.global->layout_ptr());
    float* const to = copy.values().data();
    workers.for_each(values.size(), 16 * kBlock, [&](std::int64_t begin, std::int64_t end, int) {
      const float* from = values.read(begin, end - begin, to + begin);
      if (from != to + begin) std::copy_n(from, end - begin, to + begin);
      release_around(values, begin, end - begin);
    });
    return values_of(std::move(copy));
  }

  const AggregationSettings settings_;
  const AggregationBase base_;
  Contributions contributions_;
  std::set<const UpdateValues*> held_;  // of values that belong to the contributions
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Aggregator> make_robust_aggregator(const AggregationSettings& settings,
                                                   const AggregationBase& base) {
  if (!is_robust(settings)) return nullptr;
  return std::make_unique<RobustAggregator>(settings, base);
}

Result<std::unique_ptr<Aggregator>> restore_robust_aggregator(const AggregationSettings& settings,
                                                              const AggregationBase& base,
                                                              ByteView saved) {
  if (!is_robust(settings)) {
    return Error{ErrorCode::kInvalidArgument,
                 method_name(settings) + " is no rule that keeps its contributions", "other_rule"};
  }
  auto aggregator = std::make_unique<RobustAggregator>(settings, base);
  MUSTER_TRY_STATUS(aggregator->restore(saved));
  return aggregator;
}

}  // namespace muster
