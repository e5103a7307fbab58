#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/aggregate/linear/linear_rule.h"

namespace muster {

// The slots of the state that a rule keeps from round to round (rule_state.h); none for most.
std::vector<std::string> rule_slots(const AggregationSettings& settings);

// One maker a family. Errors: kInvalidArgument, reason "bad_aggregation": something in `base` that
// the rule cannot work with.
using RulePtr = std::unique_ptr<LinearRule>;

RulePtr make_weighted_mean();  // mean_rules.cc
RulePtr make_uniform_mean();   // mean_rules.cc
Result<RulePtr> make_fednova(const FedNova& settings, const AggregationBase& base);  // fednova.cc
Result<RulePtr> make_qfedavg(const QFedAvg& settings, const AggregationBase& base);  // qfedavg.cc
RulePtr make_fedavgm(const FedAvgM& settings);  // server_optimizers.cc
Result<RulePtr> make_adaptive(const FedAdaptive& settings, const AggregationBase& base);
Result<RulePtr> make_scaffold(const Scaffold& settings,
                              const AggregationBase& base);  // drift_rules.cc
RulePtr make_feddyn(const FedDyn& settings);                 // drift_rules.cc
RulePtr make_norm_clipping(const NormClipping& settings);    // norm_rules.cc
RulePtr make_norm_filtering(const NormFiltering& settings);  // norm_rules.cc
Result<RulePtr> make_fedbuff(const FedBuff& settings, const AggregationBase& base);  // fedbuff.cc

// Error of a contribution that lacks what a rule needs.
Error lacks(const Contribution& contribution, std::string_view what, std::string reason);
Error bad_aggregation(std::string message);

// a^b, a over 0, with the same bits everywhere; exact math for whole b >= 0.
double exact_power(double a, double b);

}  // namespace muster
