#include "core/aggregate/aggregator.h"

#include <fmt/format.h>

#include <utility>

#include "core/aggregate/json_mean.h"
#include "core/aggregate/linear/linear_aggregator.h"
#include "core/aggregate/linear/linear_rule.h"
#include "core/aggregate/linear/rules.h"
#include "core/aggregate/robust/robust.h"
#include "core/aggregate/rule_state.h"
#include "core/base/invariant.h"

namespace muster {
namespace {

Status check_base(const AggregationSettings& settings, const AggregationBase& base) {
  if (base.global == nullptr) invariant_broken("an aggregate without a global state");
  const std::string method = method_name(settings);
  if (base.population < 1) {
    return bad_aggregation(
        fmt::format("{}: population {}, wanted 1 or more", method, base.population));
  }
  if (base.rule_state == nullptr) return {};
  const std::vector<std::string> slots = rule_slots(settings);
  if (slots.empty()) {
    return bad_aggregation(method + ": a rule state found, the rule keeps none");
  }
  MUSTER_TRY(const LayoutPtr wanted, rule_state_layout(base.global->layout(), slots));
  auto status = check_same_layout(*wanted, base.rule_state->layout());
  if (status) status = check_finite(*wanted, base.rule_state->values());
  if (!status) {
    return bad_aggregation(fmt::format("{}: rule state: {}", method, status.error().message));
  }
  return {};
}

// The aggregator of a rule that is not linear.
Result<std::unique_ptr<KeepingAggregator>> make_keeping(const AggregationSettings& settings,
                                                        const AggregationBase& base) {
  if (std::holds_alternative<JsonMean>(settings)) return make_json_mean_aggregator(settings, base);
  auto robust = make_robust_aggregator(settings, base);
  if (robust == nullptr) invariant_broken(method_name(settings) + " has no aggregator");
  return robust;
}

}  // namespace

Result<std::unique_ptr<Aggregator>> make_aggregator(const AggregationSettings& settings,
                                                    const AggregationBase& base) {
  MUSTER_TRY_STATUS(check_base(settings, base));
  MUSTER_TRY(auto rule, make_linear_rule(settings, base));
  if (rule != nullptr) return make_linear_aggregator(settings, base, std::move(rule));
  MUSTER_TRY(auto keeping, make_keeping(settings, base));
  return keeping;
}

Result<std::unique_ptr<Aggregator>> restore_aggregator(const AggregationSettings& settings,
                                                       const AggregationBase& base,
                                                       ByteView saved) {
  MUSTER_TRY_STATUS(check_base(settings, base));
  MUSTER_TRY(auto rule, make_linear_rule(settings, base));
  if (rule != nullptr) {
    auto aggregator = std::make_unique<LinearAggregator>(settings, base, std::move(rule));
    MUSTER_TRY_STATUS(aggregator->restore(saved));
    return aggregator;
  }
  MUSTER_TRY(auto aggregator, make_keeping(settings, base));
  MUSTER_TRY_STATUS(aggregator->restore(saved));
  return aggregator;
}

}  // namespace muster
