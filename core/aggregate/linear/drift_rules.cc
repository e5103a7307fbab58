#include <fmt/format.h>

#include <algorithm>

#include "core/aggregate/linear/elementwise.h"
#include "core/aggregate/linear/rules.h"
#include "core/aggregate/rule_state.h"

// The server's halves of the methods that correct client drift; the devices' are in
// core/train/drift_correction.h. Only trained states travel.
namespace muster {
namespace {

Error more_than_all(std::string_view method, std::int64_t contributors, std::int64_t population) {
  return {ErrorCode::kFailedPrecondition,
          fmt::format("{}: {} contributors out of a population of {}", method, contributors,
                      population),
          "insufficient_for_rule"};
}

// SCAFFOLD, option II (Karimireddy et al. 2020, Algorithm 1). The server keeps the control variate
// c; S are the round's devices, N all, y_i what came, K_i the steps, lr the devices' learning rate:
//   x <- x + eta_g / |S| sum_S (y_i - x)
//   c <- c + 1 / N sum_S dc_i,   dc_i = c_i' - c_i = -c + (x - y_i) / (K_i lr)
// So dc_i follows from y_i and K_i, and c <- c - |S| / N c - 1 / N sum_S (y_i - x) / (K_i lr).
// Start: c = 0.
class ControlVariates final : public LinearRule {
 public:
  ControlVariates(double server_lr, double local_lr) : server_lr_(server_lr), local_lr_(local_lr) {}

  std::size_t num_sums() const override { return 2; }
  Wanted wanted(std::size_t sum) const override {
    return sum == 0 ? Wanted::kMovedState : Wanted::kChange;
  }
  double pace(double /*divisor*/, const std::vector<double>& /*scalars*/) const override {
    return server_lr_;
  }

  Status check(const Contribution& contribution) const override {
    if (contribution.steps >= 1) return {};
    return lacks(
        contribution,
        fmt::format("steps {}, wanted 1 or more: SCAFFOLD divides by them", contribution.steps),
        "bad_steps");
  }

  Result<Term> term(const Contribution& contribution, double /*change_norm*/) const override {
    const double moved = static_cast<double>(contribution.steps) * local_lr_;
    return Term{.weights = {1, 1 / moved}, .divisor = 1, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& base, Workers* workers) const override {
    if (sums.contributors > base.population) {
      return more_than_all("SCAFFOLD", sums.contributors, base.population);
    }
    const StateLayout& layout = base.global->layout();
    MUSTER_TRY(const LayoutPtr kept_layout, rule_state_layout(layout, {"c"}));
    StateDict kept(kept_layout);
    const float* before = base.rule_state == nullptr ? nullptr : base.rule_state->values().data();
    const float* gradients = sums.means[1].values().data();
    float* c = kept.values().data();
    const auto all = static_cast<double>(base.population);
    const auto here = static_cast<double>(sums.contributors);
    for_elements(layout.num_elements(), workers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double old = before == nullptr ? 0.0 : static_cast<double>(before[i]);
        c[i] = static_cast<float>(old - (here * old + static_cast<double>(gradients[i])) / all);
      }
    });
    return Outcome{.global = std::move(sums.means.front()), .rule_state = std::move(kept)};
  }

 private:
  double server_lr_;
  double local_lr_;
};

// FedDyn (Acar et al. 2021, Algorithm 1). The server keeps h; P are the round's devices, m all,
// theta_k what came:
//   h <- h - alpha / m sum_P (theta_k - theta)
//   theta <- 1 / |P| sum_P theta_k - h / alpha
// Start: h = 0.
class DynamicRegularisation final : public LinearRule {
 public:
  explicit DynamicRegularisation(double alpha) : alpha_(alpha) {}

  Wanted wanted(std::size_t) const override { return Wanted::kChange; }

  Result<Term> term(const Contribution& /*contribution*/, double /*change_norm*/) const override {
    return Term{.weights = {1}, .divisor = 1, .scalars = {}};
  }

  Result<Outcome> apply(Sums sums, const AggregationBase& base, Workers* workers) const override {
    if (sums.contributors > base.population) {
      return more_than_all("FedDyn", sums.contributors, base.population);
    }
    const StateLayout& layout = base.global->layout();
    MUSTER_TRY(const LayoutPtr kept_layout, rule_state_layout(layout, {"h"}));
    StateDict kept(kept_layout);
    StateDict next = std::move(sums.means.front());
    const float* theta = base.global->values().data();
    const float* before = base.rule_state == nullptr ? nullptr : base.rule_state->values().data();
    float* h = kept.values().data();
    float* d = next.values().data();
    const double share =
        alpha_ * static_cast<double>(sums.contributors) / static_cast<double>(base.population);
    for_elements(layout.num_elements(), workers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double change = d[i];
        const double old = before == nullptr ? 0.0 : static_cast<double>(before[i]);
        const double fresh = old - share * change;
        h[i] = static_cast<float>(fresh);
        d[i] = static_cast<float>(static_cast<double>(theta[i]) + (change - fresh / alpha_));
      }
    });
    return Outcome{.global = std::move(next), .rule_state = std::move(kept)};
  }

 private:
  double alpha_;
};

}  // namespace

Result<RulePtr> make_scaffold(const Scaffold& settings, const AggregationBase& base) {
  if (!(base.local_lr >= 1e-30 && base.local_lr <= 1e30)) {
    return bad_aggregation(fmt::format(
        "SCAFFOLD: local learning rate {}, wanted one over 0 (1e-30 to 1e30)", base.local_lr));
  }
  return std::make_unique<ControlVariates>(settings.server_lr, base.local_lr);
}

RulePtr make_feddyn(const FedDyn& settings) {
  return std::make_unique<DynamicRegularisation>(settings.alpha);
}

}  // namespace muster
