#include "core/aggregate/linear/rules.h"

namespace muster {
namespace {

// FedAvg (McMahan et al. 2017, Algorithm 1): the mean of the states, each weighing as many examples
// as it was trained on,
//   w <- sum_k (n_k / n) w_k,   n = sum_k n_k.
// FedProx (Li et al. 2020, Algorithm 2) is the same on the server; its proximal term belongs to
// local training, and partial work counts like any other.
// A contributor of no examples counts nothing. One contributor is the identity, bit for bit.
class WeightedMean final : public LinearRule {
 public:
  Wanted wanted(std::size_t) const override { return Wanted::kState; }

  Result<Term> term(const Contribution& contribution, double /*change_norm*/) const override {
    const auto examples = static_cast<double>(contribution.examples);
    return Term{.weights = {examples}, .divisor = examples, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }
};

// The plain mean of the states, whatever stands behind each: w <- (1 / K) sum_k w_k.
class PlainMean final : public LinearRule {
 public:
  Wanted wanted(std::size_t) const override { return Wanted::kState; }

  Result<Term> term(const Contribution& /*contribution*/, double /*change_norm*/) const override {
    return Term{.weights = {1}, .divisor = 1, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }
};

}  // namespace

RulePtr make_weighted_mean() {
  return std::make_unique<WeightedMean>();
}

RulePtr make_uniform_mean() {
  return std::make_unique<PlainMean>();
}

}  // namespace muster
