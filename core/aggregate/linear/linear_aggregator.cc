#include "core/aggregate/linear/linear_aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/aggregate/distance.h"
#include "core/aggregate/linear/exact_mean.h"
#include "core/aggregate/linear/saved_sums.h"
#include "core/base/bytes.h"

namespace muster {
namespace {

std::vector<WeightedValues> weighted(const std::vector<Contribution>& contributions,
                                     const std::vector<LinearRule::Term>& terms, std::size_t sum) {
  std::vector<WeightedValues> values;
  values.reserve(terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    values.push_back({contributions[i].values.get(), terms[i].weights[sum]});
  }
  return values;
}

DoubleDouble negated(const DoubleDouble& value) {
  return {-value.high, -value.low};
}

bool same_state(const StateDict* a, const StateDict* b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && *a == *b;
}

bool same_base(const AggregationBase& a, const AggregationBase& b) {
  return a.content == b.content && a.population == b.population && a.local_lr == b.local_lr &&
         a.local_momentum == b.local_momentum && a.local_mu == b.local_mu &&
         same_state(a.global, b.global) && same_state(a.rule_state, b.rule_state);
}

std::vector<double> scalars_of(const Totals& totals) {
  std::vector<double> scalars;
  for (const DoubleDouble& scalar : totals.scalars) scalars.push_back(scalar.high);
  return scalars;
}

Json sorted_names(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

LinearAggregator::LinearAggregator(const AggregationSettings& settings, const AggregationBase& base,
                                   std::unique_ptr<LinearRule> rule)
    : settings_(settings),
      base_(base),
      rule_(std::move(rule)),
      contributions_(base.global->layout()),
      folded_{.totals = Totals(rule_->num_sums(), rule_->num_scalars()), .sums = {}} {}

Error LinearAggregator::finished_error() const {
  return {ErrorCode::kFailedPrecondition,
          fmt::format("{}: finished already; one object serves one round", method_name(settings_)),
          "finished"};
}

Status LinearAggregator::validate(const Contribution& contribution) const {
  if (finished_) return finished_error();
  MUSTER_TRY_STATUS(rule_->check(contribution));
  return contributions_.check(contribution);
}

Status LinearAggregator::accumulate(Contribution contribution) {
  MUSTER_TRY_STATUS(validate(contribution));
  contribution.known_finite = true;
  contributions_.add(std::move(contribution));
  return {};
}

Result<std::vector<LinearRule::Term>> LinearAggregator::pending_terms(Workers* workers) const {
  const std::vector<Contribution>& all = contributions_.all();
  std::vector<double> norms(all.size(), 0.0);
  if (rule_->wants_change_norm() && !all.empty()) {
    norms = change_norms(all, base_.content, *base_.global, workers);
  }
  std::vector<LinearRule::Term> terms;
  terms.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::isfinite(norms[i])) return non_finite_error(i);
    MUSTER_TRY(terms.emplace_back(), rule_->term(all[i], norms[i]));
  }
  return terms;
}

Error LinearAggregator::non_finite_error(std::size_t term) const {
  const Contribution& contribution = contributions_.all()[term];
  if (auto status = contributions_.check_finite(contribution); !status) return status.error();
  return {ErrorCode::kInvalidArgument,
          fmt::format("contribution of {}: a value that is not finite when it is read",
                      printable(contribution.contributor)),
          "non_finite"};
}

Status LinearAggregator::merge(Aggregator& other) {
  auto* same = dynamic_cast<LinearAggregator*>(&other);
  if (same == nullptr || to_json(settings_) != to_json(same->settings_) ||
      !same_base(base_, same->base_)) {
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
  folded_.totals.add(same->folded_.totals);
  if (folded_.sums.empty()) {
    folded_.sums = std::move(same->folded_.sums);
  } else if (!same->folded_.sums.empty()) {
    for (std::size_t i = 0; i < folded_.sums.size(); ++i) {
      add_to(folded_.sums[i], same->folded_.sums[i], nullptr);
    }
  }
  contributions_.take(same->contributions_);
  same->folded_ = {.totals = Totals(rule_->num_sums(), rule_->num_scalars()), .sums = {}};
  same->finished_ = true;
  return {};
}

Status LinearAggregator::fold(Workers* workers) {
  if (finished_) return finished_error();
  const std::vector<Contribution>& all = contributions_.all();
  if (all.empty()) return {};
  MUSTER_TRY(const std::vector<LinearRule::Term> terms, pending_terms(workers));
  const bool first = folded_.sums.empty();
  if (!first && !rule_->wants_change_norm()) {
    for (const Contribution& contribution : all) {
      MUSTER_TRY_STATUS(contributions_.check_finite(contribution));
    }
  }
  std::vector<PartialSums> fresh;
  if (first) {
    // -0.0 is the neutral start: a sum of nothing but -0.0 stays so.
    const std::vector<double> zeros(static_cast<std::size_t>(elements()), -0.0);
    fresh.assign(rule_->num_sums(), PartialSums{zeros, zeros});
  }
  std::vector<PartialSums>& sums = first ? fresh : folded_.sums;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto bad = add_to(sums[i], weighted(all, terms, i), workers);
    if (bad) return non_finite_error(bad->term);
  }
  if (first) folded_.sums = std::move(fresh);
  for (std::size_t i = 0; i < all.size(); ++i) folded_.totals.add(all[i].contributor, terms[i]);
  contributions_.fold_all();
  return {};
}

Status LinearAggregator::save(const ByteSink& sink, Workers* workers) {
  MUSTER_TRY_STATUS(fold(workers));
  return write_sums(identity_of(settings_, base_), contributions_.folded(), folded_, elements(),
                    sink);
}

Status LinearAggregator::restore(ByteView saved) {
  MUSTER_TRY(SavedSums sums, read_sums(saved, identity_of(settings_, base_), rule_->num_sums(),
                                       rule_->num_scalars(), elements()));
  folded_ = std::move(sums.folded);
  for (std::string& contributor : sums.contributors) {
    contributions_.add_folded(std::move(contributor));
  }
  return {};
}

Result<StateDict> LinearAggregator::mean(std::size_t sum,
                                         const std::vector<LinearRule::Term>& terms,
                                         const Totals& totals, Workers* workers) const {
  MeanOf mean{.terms = weighted(contributions_.all(), terms, sum),
              .divisor = sum == 0 ? totals.divisor : DoubleDouble{1, 0}};
  if (!folded_.sums.empty()) mean.partial = &folded_.sums[sum];
  const bool of_states = base_.content == UpdateContent::kState;
  switch (rule_->wanted(sum)) {
    case LinearRule::Wanted::kState:
      if (of_states) break;
      mean.base = base_.global;
      mean.base_weight = mean.divisor;
      break;
    case LinearRule::Wanted::kChange:
      if (!of_states) break;
      mean.centre = base_.global;
      if (mean.partial == nullptr) break;
      mean.base = base_.global;
      mean.base_weight = negated(folded_.totals.weights[sum]);
      break;
    case LinearRule::Wanted::kMovedState:
      mean.divisor = mean.divisor.over(rule_->pace(totals.divisor.high, scalars_of(totals)));
      mean.base = base_.global;
      mean.base_weight = of_states ? mean.divisor.minus(totals.weights[sum]) : mean.divisor;
      break;
  }
  StateDict out(base_.global->layout_ptr());
  if (const auto bad = exact_mean(mean, out.values(), workers)) return non_finite_error(bad->term);
  return out;
}

Error LinearAggregator::nothing_to_average(const Totals& totals) const {
  const std::int64_t n = num_contributors();
  std::string why = fmt::format("all {} contributors have the weight 0", n);
  if (n == 0) why = "no contributors";
  if (n > 0 && static_cast<std::int64_t>(totals.filtered.size()) == n) {
    why = fmt::format("the changes of all {} contributors were over the bound", n);
  }
  return {ErrorCode::kFailedPrecondition,
          fmt::format("{}: {}, so there is nothing to average", describe(settings_), why),
          "no_contributors"};
}

Status LinearAggregator::check_outcome(const StateDict& state) const {
  auto status = check_finite(state.layout(), state.values());
  if (status) return {};
  Error error = with_context(std::move(status).error(), "outcome of " + describe(settings_));
  error.code = ErrorCode::kFailedPrecondition;
  return error;
}

Result<Outcome> LinearAggregator::finish(Workers* workers) {
  if (finished_) return finished_error();
  MUSTER_TRY(const std::vector<LinearRule::Term> terms, pending_terms(workers));
  Totals totals(rule_->num_sums(), rule_->num_scalars());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    totals.add(contributions_.all()[i].contributor, terms[i]);
  }
  totals.add(folded_.totals);
  const bool any = std::any_of(totals.weights.begin(), totals.weights.end(),
                               [](const DoubleDouble& weight) { return weight.high > 0; });
  if (!any || !(totals.divisor.high > 0)) return nothing_to_average(totals);

  LinearRule::Sums sums;
  for (std::size_t i = 0; i < rule_->num_sums(); ++i) {
    MUSTER_TRY(StateDict one, mean(i, terms, totals, workers));
    sums.means.push_back(std::move(one));
  }
  sums.contributors = num_contributors();
  finished_ = true;
  folded_.sums = {};
  MUSTER_TRY(Outcome outcome, rule_->apply(std::move(sums), base_, workers));
  MUSTER_TRY_STATUS(check_outcome(outcome.global));
  if (outcome.rule_state) MUSTER_TRY_STATUS(check_outcome(*outcome.rule_state));
  if (!totals.clipped.empty()) outcome.report["clipped"] = sorted_names(totals.clipped);
  if (!totals.filtered.empty()) outcome.report["filtered"] = sorted_names(totals.filtered);
  return outcome;
}

std::unique_ptr<Aggregator> make_linear_aggregator(const AggregationSettings& settings,
                                                   const AggregationBase& base,
                                                   std::unique_ptr<LinearRule> rule) {
  return std::make_unique<LinearAggregator>(settings, base, std::move(rule));
}

}  // namespace muster
