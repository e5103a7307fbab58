#include "core/aggregate/robust/robust_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/aggregate/distance.h"
#include "core/aggregate/linear/exact_mean.h"
#include "core/aggregate/robust/columns.h"
#include "core/aggregate/robust/geometric_median.h"
#include "core/aggregate/robust/krum.h"
#include "core/aggregate/update_check.h"
#include "core/base/bytes.h"
#include "core/base/invariant.h"

namespace muster {
namespace {

class RobustRule {
 public:
  RobustRule(const AggregationSettings& settings, const AggregationBase& base,
             std::span<const Contribution> contributions, Workers& workers)
      : settings_(settings),
        base_(base),
        contributions_(contributions),
        workers_(workers),
        outcome_{.global = StateDict(base.global->layout_ptr()), .rule_state = {}} {}

  Result<Outcome> run() {
    MUSTER_TRY_STATUS(std::visit([this](const auto& rule) { return apply(rule); }, settings_));
    if (auto status = check_finite(base_.global->layout(), outcome_.global.values()); !status) {
      Error error = with_context(std::move(status).error(), "outcome of " + describe(settings_));
      error.code = ErrorCode::kFailedPrecondition;
      return error;
    }
    return std::move(outcome_);
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(contributions_.size()); }
  // What deltas are added to.
  const StateDict* added() const {
    return base_.content == UpdateContent::kDelta ? base_.global : nullptr;
  }

  Status apply(const Median&) { return columns(contributions_, ColumnRule::median(count())); }

  Status apply(const TrimmedMean& rule) {
    const std::int64_t trimmed = trimmed_count(rule.beta, count());
    if (2 * trimmed >= count()) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("{}: {} of n = {} values trimmed at each end, wanted 2k < n",
                               describe(settings_), trimmed, count()),
                   "insufficient_for_rule"};
    }
    return columns(contributions_, ColumnRule::trimmed_mean(count(), trimmed));
  }

  Status apply(const Krum& rule) { return krum(rule.f, 1); }
  Status apply(const MultiKrum& rule) { return krum(rule.f, rule.m); }

  Status apply(const Bulyan& rule) {
    MUSTER_TRY(const std::vector<double> distances, finite_distances());
    const std::vector<std::int64_t> selected =
        bulyan_selection(distances, count(), rule.f, workers_);
    report_selected(selected);
    std::vector<Contribution> chosen;
    for (const std::int64_t i : selected) chosen.push_back(at(i));
    const std::int64_t near = static_cast<std::int64_t>(selected.size()) - 2 * rule.f;
    return columns(chosen, ColumnRule::near_median(near));
  }

  Status apply(const GeometricMedian& rule) {
    // A weight of 0 counts for nothing.
    std::vector<Contribution> weighty;
    std::vector<double> weights;
    for (const Contribution& contribution : contributions_) {
      if (contribution.examples <= 0) continue;
      weighty.push_back(contribution);
      weights.push_back(static_cast<double>(contribution.examples));
    }
    if (weighty.empty()) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("{}: all {} contributors have the weight 0, so there is nothing to "
                               "aggregate",
                               describe(settings_), count()),
                   "no_contributors"};
    }
    const WeiszfeldResult result = geometric_median(
        rows_of(weighty), weights,
        {.nu = rule.nu, .max_iterations = rule.max_iterations, .tolerance = rule.tolerance},
        added(), outcome_.global.values(), workers_);
    return result.finite ? Status{} : non_finite(weighty);
  }

  template <typename Other>
  Status apply(const Other&) {
    invariant_broken(method_name(settings_) + " is no robust rule");
  }

  const Contribution& at(std::int64_t i) const {
    return contributions_[static_cast<std::size_t>(i)];
  }

  Status columns(std::span<const Contribution> contributions, const ColumnRule& rule) {
    const bool finite =
        column_means(rows_of(contributions), rule, added(), outcome_.global.values(), workers_);
    return finite ? Status{} : non_finite(contributions);
  }

  // The mean of the m with the lowest scores.
  Status krum(std::int64_t f, std::int64_t m) {
    MUSTER_TRY(const std::vector<double> distances, finite_distances());
    const std::vector<std::int64_t> selected =
        lowest_scores(krum_scores(distances, count(), f, workers_), m);
    report_selected(selected);
    MeanOf mean{.terms = {}, .divisor = {static_cast<double>(m), 0}};
    for (const std::int64_t i : selected) mean.terms.push_back({at(i).values.get(), 1});
    if (added() != nullptr) {
      mean.base = added();
      mean.base_weight = mean.divisor;
    }
    const auto bad = exact_mean(mean, outcome_.global.values(), &workers_);
    return bad ? non_finite(contributions_) : Status{};
  }

  Result<std::vector<double>> finite_distances() {
    std::vector<double> distances = squared_distances(contributions_, &workers_);
    const bool finite = std::all_of(distances.begin(), distances.end(),
                                    [](double distance) { return std::isfinite(distance); });
    if (!finite) return non_finite(contributions_).error();
    return distances;
  }

  void report_selected(std::span<const std::int64_t> selected) {
    Json names = Json::array();
    for (const std::int64_t i : selected) names.push_back(at(i).contributor);
    outcome_.report["selected"] = std::move(names);
  }

  // Whose value was not finite; always an error.
  Status non_finite(std::span<const Contribution> contributions) const {
    for (const Contribution& contribution : contributions) {
      MUSTER_TRY_STATUS(check_values(base_.global->layout(), contribution));
    }
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{}: a value was not finite when it was read, and is now", describe(settings_)),
        "non_finite"};
  }

  const AggregationSettings& settings_;
  const AggregationBase& base_;
  std::span<const Contribution> contributions_;
  Workers& workers_;
  Outcome outcome_;
};

}  // namespace

bool is_robust(const AggregationSettings& settings) {
  return std::holds_alternative<Median>(settings) ||
         std::holds_alternative<TrimmedMean>(settings) || std::holds_alternative<Krum>(settings) ||
         std::holds_alternative<MultiKrum>(settings) || std::holds_alternative<Bulyan>(settings) ||
         std::holds_alternative<GeometricMedian>(settings);
}

std::int64_t trimmed_count(double beta, std::int64_t n) {
  const double product = beta * static_cast<double>(n);
  const double whole = std::nearbyint(product);
  // A few roundings of beta and of the product.
  const bool close = std::abs(product - whole) <= 4 * 0x1p-52 * whole;
  return std::min(static_cast<std::int64_t>(close ? whole : std::floor(product)), (n - 1) / 2);
}

Result<Outcome> run_robust_rule(const AggregationSettings& settings, const AggregationBase& base,
                                std::span<const Contribution> contributions, Workers& workers) {
  if (contributions.empty()) {
    return Error{
        ErrorCode::kFailedPrecondition,
        fmt::format("{}: no contributors, so there is nothing to aggregate", describe(settings)),
        "no_contributors"};
  }
  MUSTER_TRY_STATUS(check_contributors(settings, static_cast<std::int64_t>(contributions.size())));
  return RobustRule(settings, base, contributions, workers).run();
}

}  // namespace muster
