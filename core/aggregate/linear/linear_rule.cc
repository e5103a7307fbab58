#include "core/aggregate/linear/linear_rule.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/aggregate/linear/rules.h"
#include "core/base/bytes.h"
#include "core/base/exact_math.h"

namespace muster {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

Result<std::unique_ptr<LinearRule>> make_linear_rule(const AggregationSettings& settings,
                                                     const AggregationBase& base) {
  using Made = Result<RulePtr>;
  return std::visit(Overloaded{
                        [](const FedAvg&) -> Made { return make_weighted_mean(); },
                        [](const FedProx&) -> Made { return make_weighted_mean(); },
                        [](const UniformMean&) -> Made { return make_uniform_mean(); },
                        [&](const FedNova& rule) -> Made { return make_fednova(rule, base); },
                        [&](const QFedAvg& rule) -> Made { return make_qfedavg(rule, base); },
                        [](const FedAvgM& rule) -> Made { return make_fedavgm(rule); },
                        [&](const FedAdaptive& rule) -> Made { return make_adaptive(rule, base); },
                        [&](const Scaffold& rule) -> Made { return make_scaffold(rule, base); },
                        [](const FedDyn& rule) -> Made { return make_feddyn(rule); },
                        [](const NormClipping& rule) -> Made { return make_norm_clipping(rule); },
                        [](const NormFiltering& rule) -> Made { return make_norm_filtering(rule); },
                        [&](const FedBuff& rule) -> Made { return make_fedbuff(rule, base); },
                        [](const auto&) -> Made { return RulePtr{}; },
                    },
                    settings);
}

std::vector<std::string> rule_slots(const AggregationSettings& settings) {
  using Slots = std::vector<std::string>;
  return std::visit(Overloaded{
                        [](const FedAvgM&) { return Slots{"m"}; },
                        [](const FedAdaptive&) {
                          return Slots{"m", "v"};
                        },
                        [](const Scaffold&) { return Slots{"c"}; },
                        [](const FedDyn&) { return Slots{"h"}; },
                        [](const auto&) { return Slots{}; },
                    },
                    settings);
}

Error lacks(const Contribution& contribution, std::string_view what, std::string reason) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("contribution of {}: {}", printable(contribution.contributor), what),
          std::move(reason)};
}

Error bad_aggregation(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_aggregation"};
}

double exact_power(double a, double b) {
  if (b >= 0 && b == std::floor(b)) return integer_power(a, static_cast<std::int64_t>(b));
  return exact_exp(b * exact_log(a));
}

}  // namespace muster
