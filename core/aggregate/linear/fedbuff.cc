#include <fmt/format.h>

#include "core/aggregate/linear/rules.h"

namespace muster {
namespace {

// FedBuff (Nguyen, Malik, Zhan et al. 2022, Algorithm 1): nobody waits for a round; as soon as K
// updates are in the buffer the model moves. d_k is the change of an update from the state that it
// was trained from, s_k how many states were committed since:
//   x <- x + server_lr / K * sum_k (1 + s_k)^-exponent d_k
// As in the paper the weights are not normalised: stale updates make the step smaller.
class Buffered final : public LinearRule {
 public:
  explicit Buffered(const FedBuff& settings) : settings_(settings) {}

  Wanted wanted(std::size_t) const override { return Wanted::kMovedState; }
  double pace(double /*divisor*/, const std::vector<double>& /*scalars*/) const override {
    return settings_.server_lr;
  }

  Status check(const Contribution& contribution) const override {
    if (contribution.staleness <= settings_.max_staleness) return {};
    return lacks(contribution,
                 fmt::format("staleness {}, wanted at most {}", contribution.staleness,
                             settings_.max_staleness),
                 "too_stale");
  }

  Result<Term> term(const Contribution& contribution, double /*change_norm*/) const override {
    const double age = 1 + static_cast<double>(contribution.staleness);
    return Term{
        .weights = {exact_power(age, -settings_.staleness_exponent)}, .divisor = 1, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }

 private:
  FedBuff settings_;
};

}  // namespace

Result<RulePtr> make_fedbuff(const FedBuff& settings, const AggregationBase& base) {
  if (base.content != UpdateContent::kDelta) {
    return bad_aggregation(
        "FedBuff: updates that are states, wanted deltas: they were trained from different states, "
        "so a state does not say what its change was");
  }
  return std::make_unique<Buffered>(settings);
}

}  // namespace muster
