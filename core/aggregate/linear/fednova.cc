#include <fmt/format.h>

#include <cmath>

#include "core/aggregate/linear/fednova_norm.h"
#include "core/aggregate/linear/rules.h"

namespace muster {
namespace {

// The affine map of one local step, and of many: with `buffer` the momentum buffer, `done` the sum
// of what was subtracted from w so far (both in units of lr * gradient), and 1,
//   buffer <- from_buffer[0] buffer + from_done[0] done + constant[0]
//   done   <- from_buffer[1] buffer + from_done[1] done + constant[1]
struct Steps {
  double from_buffer[2];
  double from_done[2];
  double constant[2];
};

// `first`, then `second`.
Steps then(const Steps& first, const Steps& second) {
  Steps both{};
  for (int i = 0; i < 2; ++i) {
    both.from_buffer[i] =
        second.from_buffer[i] * first.from_buffer[0] + second.from_done[i] * first.from_buffer[1];
    both.from_done[i] =
        second.from_buffer[i] * first.from_done[0] + second.from_done[i] * first.from_done[1];
    both.constant[i] = second.from_buffer[i] * first.constant[0] +
                       second.from_done[i] * first.constant[1] + second.constant[i];
  }
  return both;
}

// FedNova (Wang, Liu, Liang, Joshi, Poor 2020): a device that takes more local steps moves further,
// and a plain mean then minimises another objective than the one asked for. So each change is
// divided by ||a_i||_1, the number of gradients it amounts to, and the mean direction is multiplied
// by the effective number of steps:
//   d_i = (x - y_i) / (eta ||a_i||_1),   x <- x - tau_eff eta sum_i p_i d_i,   p_i = n_i / n
// eta cancels: x <- x + tau_eff / n * sum_i (n_i / ||a_i||_1) (y_i - x).
//   tau_eff  sum_i p_i ||a_i||_1 ("a_norm"; then SGD with equal steps is FedAvg), or
//            sum_i p_i tau_i ("steps")
class Nova final : public LinearRule {
 public:
  Nova(FedNova::TauEff tau_eff, const AggregationBase& base)
      : tau_eff_(tau_eff), momentum_(base.local_momentum), shrink_(base.local_lr * base.local_mu) {}

  std::size_t num_scalars() const override { return 1; }
  Wanted wanted(std::size_t) const override { return Wanted::kMovedState; }
  // tau_eff
  double pace(double divisor, const std::vector<double>& scalars) const override {
    return scalars.front() / divisor;
  }

  Status check(const Contribution& contribution) const override {
    if (contribution.examples == 0) return {};
    if (contribution.steps < 1) {
      return lacks(contribution,
                   fmt::format("steps {}, wanted 1 or more: FedNova divides by what they amount to",
                               contribution.steps),
                   "bad_steps");
    }
    const double norm = fednova_norm(contribution.steps, momentum_, shrink_);
    if (norm > 0 && norm <= 1e60) return {};
    return lacks(
        contribution,
        fmt::format("steps {}: with momentum {} and lr * mu {} they amount to {} gradients",
                    contribution.steps, momentum_, shrink_, norm),
        "bad_steps");
  }

  Result<Term> term(const Contribution& contribution, double /*change_norm*/) const override {
    const auto examples = static_cast<double>(contribution.examples);
    if (examples == 0) return Term{.weights = {0}, .divisor = 0, .scalars = {0}};
    const double norm = fednova_norm(contribution.steps, momentum_, shrink_);
    const double tau =
        tau_eff_ == FedNova::TauEff::kNorm ? norm : static_cast<double>(contribution.steps);
    return Term{.weights = {examples / norm}, .divisor = examples, .scalars = {examples * tau}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& /*base*/,
                        Workers* /*workers*/) const override {
    return Outcome{.global = std::move(sums.means.front()), .rule_state = {}};
  }

 private:
  FedNova::TauEff tau_eff_;
  double momentum_;
  double shrink_;  // lr * mu: the share of (w - x) that a proximal step takes back
};

}  // namespace

double fednova_norm(std::int64_t steps, double momentum, double shrink) {
  // One step on a constant gradient of 1: buffer <- momentum buffer + 1 - shrink done, then done <-
  // done + buffer. `steps` of them by repeated squaring; without a proximal term all summands are
  // positive, so that nothing cancels where the closed form of the paper would.
  Steps power{{momentum, momentum}, {-shrink, 1 - shrink}, {1, 1}};
  Steps all{{1, 0}, {0, 1}, {0, 0}};
  for (std::int64_t rest = steps; rest > 0; rest >>= 1) {
    if ((rest & 1) != 0) all = then(all, power);
    power = then(power, power);
  }
  return all.constant[1];
}

Result<RulePtr> make_fednova(const FedNova& settings, const AggregationBase& base) {
  if (!(base.local_momentum >= 0 && base.local_momentum < 1)) {
    return bad_aggregation(
        fmt::format("FedNova: local momentum {}, wanted 0 to below 1", base.local_momentum));
  }
  if (!(base.local_mu >= 0 && base.local_mu <= 1e6)) {
    return bad_aggregation(fmt::format("FedNova: local mu {}, wanted 0 to 1e6", base.local_mu));
  }
  if (base.local_mu > 0 && !(base.local_lr > 0 && base.local_lr * base.local_mu < 1)) {
    return bad_aggregation(fmt::format(
        "FedNova: local learning rate {} with mu {}, wanted one over 0 whose product with mu is "
        "below 1: from there on the proximal step overshoots",
        base.local_lr, base.local_mu));
  }
  return std::make_unique<Nova>(settings.tau_eff, base);
}

}  // namespace muster
