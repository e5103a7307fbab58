#include <fmt/format.h>

#include <cmath>

#include "core/aggregate/linear/rules.h"

namespace muster {
namespace {

// Weights are kept where the exact mean's integers reach.
constexpr double kLeast = 1e-60;
constexpr double kMost = 1e60;

// q-FedAvg (Li, Sanjabi, Beirami, Smith 2020, Algorithm 2): minimises sum_k F_k^(q + 1) / (q + 1),
// so that devices on which the model does badly count for more. With L = 1 / lr, w_k the device's
// state and F_k the loss of the global state w on its data:
//   Dw_k = L (w - w_k)
//   D_k  = F_k^q Dw_k
//   h_k  = q F_k^(q - 1) ||Dw_k||^2 + L F_k^q
//   w   <- w - (sum_k D_k) / (sum_k h_k)
// Divided by L above and below, which leaves numbers near 1: weight F_k^q of the change w_k - w,
// and divisor F_k^q + q F_k^(q - 1) L ||w_k - w||^2. Units: L is gradient over parameter, so L
// times a squared change is a loss, as F_k is. q = 0 is the plain mean of the states.
class QFair final : public LinearRule {
 public:
  QFair(double q, double lr) : q_(q), lipschitz_(1 / lr) {}

  Wanted wanted(std::size_t) const override { return Wanted::kMovedState; }
  bool wants_change_norm() const override { return q_ > 0; }

  Status check(const Contribution& contribution) const override {
    if (q_ == 0) return {};
    if (!contribution.initial_loss) {
      return lacks(contribution,
                   "no loss of the global state on its examples, which q-FedAvg weighs by",
                   "bad_loss");
    }
    const double loss = *contribution.initial_loss;
    // Below q = 1 the power q - 1 has no value at 0.
    if (loss == 0 && q_ >= 1) return {};
    const double weight = loss > 0 && loss <= kMost ? exact_power(loss, q_) : -1;
    const double slope = weight >= kLeast ? exact_power(loss, q_ - 1) : -1;
    if (weight >= kLeast && weight <= kMost && slope >= kLeast && slope <= kMost) return {};
    return lacks(contribution,
                 fmt::format("initial loss {}, wanted one {} 0 whose powers q = {} and q - 1 are "
                             "within 1e-60 to 1e60",
                             loss, q_ >= 1 ? "of at least" : "over", q_),
                 "bad_loss");
  }

  Result<Term> term(const Contribution& contribution, double change_norm) const override {
    if (q_ == 0) return Term{.weights = {1}, .divisor = 1, .scalars = {}};
    const double loss = *contribution.initial_loss;
    const double weight = loss == 0 ? 0 : exact_power(loss, q_);
    const double slope = loss == 0 ? (q_ == 1 ? 1 : 0) : exact_power(loss, q_ - 1);
    const double divisor = weight + q_ * slope * lipschitz_ * change_norm * change_norm;
    return Term{.weights = {weight}, .divisor = divisor, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }

 private:
  double q_;
  double lipschitz_;  // L
};

}  // namespace

Result<RulePtr> make_qfedavg(const QFedAvg& settings, const AggregationBase& base) {
  if (!(base.local_lr >= 1e-30 && base.local_lr <= 1e30)) {
    return bad_aggregation(fmt::format(
        "q-FedAvg: local learning rate {}, wanted one over 0 (1e-30 to 1e30)", base.local_lr));
  }
  return std::make_unique<QFair>(settings.q, base.local_lr);
}

}  // namespace muster
