#include "core/aggregate/linear/rules.h"

namespace muster {
namespace {

// Below this a clipped weight is as good as none, and the exact mean's integers end.
constexpr double kLeastShare = 0x1p-190;

// Norm clipping (Sun, Kairouz, Suresh, McMahan 2019, section 4): no device moves the model further
// than a change of norm c would. With d_k the change and n_k its examples:
//   x <- x + sum_k (n_k / n) d_k min(1, c / ||d_k||)
class Clipping final : public LinearRule {
 public:
  explicit Clipping(double max_norm) : max_norm_(max_norm) {}

  Wanted wanted(std::size_t) const override { return Wanted::kMovedState; }
  bool wants_change_norm() const override { return true; }

  Result<Term> term(const Contribution& contribution, double change_norm) const override {
    const auto examples = static_cast<double>(contribution.examples);
    Term term{.weights = {examples}, .divisor = examples, .scalars = {}};
    if (change_norm > max_norm_) {
      const double share = max_norm_ / change_norm;
      term.weights.front() = share < kLeastShare ? 0 : examples * share;
      term.clipped = true;
    }
    return term;
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }

 private:
  double max_norm_;
};

// Norm filtering: a change whose norm is over the bound does not count at all; the others are
// averaged as by FedAvg.
class Filtering final : public LinearRule {
 public:
  explicit Filtering(double max_norm) : max_norm_(max_norm) {}

  Wanted wanted(std::size_t) const override { return Wanted::kState; }
  bool wants_change_norm() const override { return true; }

  Result<Term> term(const Contribution& contribution, double change_norm) const override {
    if (change_norm > max_norm_) {
      return Term{.weights = {0}, .divisor = 0, .scalars = {}, .filtered = true};
    }
    const auto examples = static_cast<double>(contribution.examples);
    return Term{.weights = {examples}, .divisor = examples, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }

 private:
  double max_norm_;
};

}  // namespace

RulePtr make_norm_clipping(const NormClipping& settings) {
  return std::make_unique<Clipping>(settings.max_norm);
}

RulePtr make_norm_filtering(const NormFiltering& settings) {
  return std::make_unique<Filtering>(settings.max_norm);
}

}  // namespace muster
