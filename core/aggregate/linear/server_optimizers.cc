#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/aggregate/linear/elementwise.h"
#include "core/aggregate/linear/rules.h"
#include "core/aggregate/rule_state.h"

namespace muster {
namespace {

// What the rules here share: the mean change, weighted by examples, is a pseudo-gradient D that an
// optimiser on the server takes a step with. Elements are computed in double and rounded once.
class ServerOptimizer : public LinearRule {
 public:
  Wanted wanted(std::size_t) const final { return Wanted::kChange; }

  Result<Term> term(const Contribution& contribution, double /*change_norm*/) const override {
    const auto examples = static_cast<double>(contribution.examples);
    return Term{.weights = {examples}, .divisor = examples, .scalars = {}};
  }
};

// FedAvgM (Hsu, Qi, Brown 2019): momentum on the server, without dampening.
//   m <- beta m + D;   x <- x + eta m,   or x <- x + eta (D + beta m) with Nesterov's momentum
class Momentum final : public ServerOptimizer {
 public:
  explicit Momentum(const FedAvgM& settings) : settings_(settings) {}

  Result<Outcome> apply(Sums sums, const AggregationBase& base, Workers* workers) const override {
    const StateLayout& layout = base.global->layout();
    MUSTER_TRY(const LayoutPtr kept_layout, rule_state_layout(layout, {"m"}));
    StateDict kept(kept_layout);
    StateDict next = std::move(sums.means.front());
    const float* x = base.global->values().data();
    const float* before = base.rule_state == nullptr ? nullptr : base.rule_state->values().data();
    float* m = kept.values().data();
    float* d = next.values().data();
    for_elements(layout.num_elements(), workers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double change = d[i];
        const double moved =
            settings_.momentum * (before == nullptr ? 0.0 : static_cast<double>(before[i])) +
            change;
        const double step = settings_.nesterov ? change + settings_.momentum * moved : moved;
        m[i] = static_cast<float>(moved);
        d[i] = static_cast<float>(static_cast<double>(x[i]) + settings_.server_lr * step);
      }
    });
    return Outcome{.global = std::move(next), .rule_state = std::move(kept)};
  }

 private:
  FedAvgM settings_;
};

// FedAdagrad, FedAdam, FedYogi (Reddi et al. 2021, Algorithm 2):
//   m <- beta1 m + (1 - beta1) D
//   v <- v + D^2                                     FedAdagrad
//        beta2 v + (1 - beta2) D^2                   FedAdam
//        v - (1 - beta2) D^2 sign(v - D^2)           FedYogi, sign(0) = 0
//   x <- x + eta m / (sqrt(v) + tau)
// Start: m = 0, v = tau^2. No bias correction.
class Adaptive final : public ServerOptimizer {
 public:
  explicit Adaptive(const FedAdaptive& settings) : settings_(settings) {}

  Result<Outcome> apply(Sums sums, const AggregationBase& base, Workers* workers) const override {
    const StateLayout& layout = base.global->layout();
    MUSTER_TRY(const LayoutPtr kept_layout, rule_state_layout(layout, {"m", "v"}));
    StateDict kept(kept_layout);
    StateDict next = std::move(sums.means.front());
    const float* x = base.global->values().data();
    const bool first = base.rule_state == nullptr;
    const float* m_before = first ? nullptr : slot_of(*base.rule_state, 0, layout).data();
    const float* v_before = first ? nullptr : slot_of(*base.rule_state, 1, layout).data();
    float* m = slot_of(kept, 0, layout).data();
    float* v = slot_of(kept, 1, layout).data();
    float* d = next.values().data();
    for_elements(layout.num_elements(), workers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double change = d[i];
        const double m_old = first ? 0.0 : static_cast<double>(m_before[i]);
        const double v_old =
            first ? settings_.tau * settings_.tau : static_cast<double>(v_before[i]);
        const double m_new = settings_.beta1 * m_old + (1 - settings_.beta1) * change;
        const double v_new = second_moment(v_old, change * change);
        m[i] = static_cast<float>(m_new);
        v[i] = static_cast<float>(v_new);
        const double step = settings_.server_lr * m_new / (std::sqrt(v_new) + settings_.tau);
        d[i] = static_cast<float>(static_cast<double>(x[i]) + step);
      }
    });
    return Outcome{.global = std::move(next), .rule_state = std::move(kept)};
  }

 private:
  double second_moment(double v, double square) const {
    if (settings_.kind == FedAdaptive::Kind::kAdagrad) return v + square;
    const double fresh = (1 - settings_.beta2) * square;
    if (settings_.kind == FedAdaptive::Kind::kAdam) return settings_.beta2 * v + fresh;
    if (v == square) return v;
    return v > square ? v - fresh : v + fresh;
  }

  FedAdaptive settings_;
};

}  // namespace

RulePtr make_fedavgm(const FedAvgM& settings) {
  return std::make_unique<Momentum>(settings);
}

Result<RulePtr> make_adaptive(const FedAdaptive& settings, const AggregationBase& base) {
  if (base.rule_state != nullptr) {
    const auto v = slot_of(*base.rule_state, 1, base.global->layout());
    if (std::any_of(v.begin(), v.end(), [](float value) { return value < 0; })) {
      return bad_aggregation(
          fmt::format("{}: the rule state has a negative second moment", method_name(settings)));
    }
  }
  return std::make_unique<Adaptive>(settings);
}

}  // namespace muster
