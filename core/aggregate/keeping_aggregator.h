#pragma once

#include <memory>
#include <set>
#include <span>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/contributions.h"

namespace muster {

// What a keeping aggregator makes of its contributions. Immutable.
class KeepingRule {
 public:
  virtual ~KeepingRule() = default;

  // What is asked of a contribution beside what every rule asks: its layout, counts and values are
  // sound already, unless it was known to be finite. Errors: as Aggregator::validate.
  virtual Status check(const Contribution& /*contribution*/) const { return {}; }

  // What Aggregator::finish does.
  //   contributions  sorted by contributor, with the base's layout
  // Errors: those of Aggregator::finish but "finished".
  virtual Result<Outcome> run(std::span<const Contribution> contributions,
                              Workers& workers) const = 0;
};

// The aggregator of all rules that need all updates at once. It keeps the contributions, lets its
// rule read them side by side at the end, and merges by passing them on; a fold copies their values
// into memory.
class KeepingAggregator final : public Aggregator {
 public:
  KeepingAggregator(const AggregationSettings& settings, const AggregationBase& base,
                    std::unique_ptr<const KeepingRule> rule);

  Status validate(const Contribution& contribution) const override;
  Status accumulate(Contribution contribution) override;
  Status merge(Aggregator& other) override;
  Status fold(Workers* workers = nullptr) override;
  Status save(const ByteSink& sink, Workers* workers = nullptr) override;
  Result<Outcome> finish(Workers* workers = nullptr) override;
  std::int64_t num_contributors() const override { return contributions_.size(); }

  // Takes over what `save` wrote, into an aggregate that is empty: the contributions are views into
  // `saved`, or copies where that does not begin as floats have to.
  // Errors: as restore_aggregator.
  Status restore(ByteView saved);

 private:
  Error finished_error() const;
  bool same_origin(const KeepingAggregator& other) const;
  // Whether its values are a copy that this made.
  bool is_held(const Contribution& contribution) const;
  ValuesPtr copy_of(const UpdateValues& values, Workers& workers) const;

  const AggregationSettings settings_;
  const AggregationBase base_;
  const std::unique_ptr<const KeepingRule> rule_;
  Contributions contributions_;
  std::set<const UpdateValues*> held_;  // of values that belong to the contributions
  bool finished_ = false;
};

}  // namespace muster
