#pragma once

#include <memory>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/contributions.h"
#include "core/aggregate/linear/linear_rule.h"
#include "core/aggregate/linear/totals.h"

namespace muster {

// The aggregator of all rules that are weighted sums (linear_rule.h). Contributions are noted; at
// the end every sum is one exact_mean over all of them. What was folded, or came by a merge of
// folded ones, is a partial sum beside them.
class LinearAggregator final : public Aggregator {
 public:
  LinearAggregator(const AggregationSettings& settings, const AggregationBase& base,
                   std::unique_ptr<LinearRule> rule);

  Status validate(const Contribution& contribution) const override;
  Status accumulate(Contribution contribution) override;
  Status merge(Aggregator& other) override;
  // The first fold makes sums of its own and is dropped when a value is not finite; later ones read
  // the values beforehand to be sure, so that the sums stay whole.
  Status fold(Workers* workers) override;
  Status save(const ByteSink& sink, Workers* workers) override;
  Result<Outcome> finish(Workers* workers) override;
  std::int64_t num_contributors() const override { return contributions_.size(); }

  // Takes over what `save` wrote, into an aggregate that is empty. Errors: as restore_aggregator.
  Status restore(ByteView saved);

 private:
  Error finished_error() const;
  Error nothing_to_average(const Totals& totals) const;
  std::int64_t elements() const { return base_.global->layout().num_elements(); }
  // The terms of the contributions that were noted and not folded, in order of their names.
  Result<std::vector<LinearRule::Term>> pending_terms(Workers* workers) const;
  Error non_finite_error(std::size_t term) const;
  Result<StateDict> mean(std::size_t sum, const std::vector<LinearRule::Term>& terms,
                         const Totals& totals, Workers* workers) const;
  Status check_outcome(const StateDict& state) const;

  AggregationSettings settings_;
  AggregationBase base_;
  std::unique_ptr<LinearRule> rule_;
  Contributions contributions_;
  FoldedSums folded_;
  bool finished_ = false;
};

}  // namespace muster
