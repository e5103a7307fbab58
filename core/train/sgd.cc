#include "core/train/sgd.h"

#include <cstddef>

namespace muster {
namespace {

// How the buffer of momentum is used in a step.
enum class Momentum { kNone, kFirst, kLater };

struct Coefficients {
  float lr;
  float momentum;
  float keep;
  float weight_decay;
  float mu;
};

// One range of a step. What is not asked for is compiled out, so that plain SGD is one fused loop;
// the order of operations is the same in all forms.
template <bool Proximal, bool Decay, Momentum Kind, bool Nesterov>
void pass(std::size_t n, const Coefficients& c, const float* __restrict gradient,
          const float* __restrict global, float* __restrict buffer, float* __restrict w) {
  for (std::size_t i = 0; i < n; ++i) {
    float g = gradient[i];
    if constexpr (Proximal) g += c.mu * (w[i] - global[i]);
    if constexpr (Decay) g += c.weight_decay * w[i];
    if constexpr (Kind != Momentum::kNone) {
      const float b = Kind == Momentum::kFirst ? g : c.momentum * buffer[i] + c.keep * g;
      buffer[i] = b;
      g = Nesterov ? g + c.momentum * b : b;
    }
    w[i] -= c.lr * g;
  }
}

using Pass = void (*)(std::size_t, const Coefficients&, const float*, const float*, float*, float*);

template <bool Proximal, bool Decay>
Pass choose(Momentum kind, bool nesterov) {
  if (kind == Momentum::kNone) return pass<Proximal, Decay, Momentum::kNone, false>;
  if (kind == Momentum::kFirst) {
    return nesterov ? pass<Proximal, Decay, Momentum::kFirst, true>
                    : pass<Proximal, Decay, Momentum::kFirst, false>;
  }
  return nesterov ? pass<Proximal, Decay, Momentum::kLater, true>
                  : pass<Proximal, Decay, Momentum::kLater, false>;
}

Pass choose(bool proximal, bool decay, Momentum kind, bool nesterov) {
  if (proximal)
    return decay ? choose<true, true>(kind, nesterov) : choose<true, false>(kind, nesterov);
  return decay ? choose<false, true>(kind, nesterov) : choose<false, false>(kind, nesterov);
}

}  // namespace

void add_proximal_gradient(std::span<float> gradient, std::span<const float> w,
                           std::span<const float> w_global, double mu) {
  const auto factor = static_cast<float>(mu);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += factor * (w[i] - w_global[i]);
}

Sgd::Sgd(const OptimizerSettings& settings)
    : lr_(static_cast<float>(settings.lr)),
      momentum_(static_cast<float>(settings.momentum)),
      keep_(static_cast<float>(1.0 - settings.dampening)),
      weight_decay_(static_cast<float>(settings.weight_decay)),
      nesterov_(settings.nesterov) {}

void Sgd::step(StateDict& w, const StateDict& gradient, std::span<const Graph::Range> ranges,
               const ProximalTerm& proximal, SgdState& state) const {
  Momentum kind = Momentum::kNone;
  if (momentum_ != 0) {
    kind = state.momentum.empty() ? Momentum::kFirst : Momentum::kLater;
    if (state.momentum.empty()) state.momentum.emplace_back(w.layout_ptr());
  }
  const Pass run = choose(proximal.active(), weight_decay_ != 0, kind, nesterov_);
  const Coefficients c{lr_, momentum_, keep_, weight_decay_, static_cast<float>(proximal.mu)};
  for (const Graph::Range& range : ranges) {
    const auto at = static_cast<std::size_t>(range.offset);
    run(static_cast<std::size_t>(range.size), c, gradient.values().data() + at,
        proximal.active() ? proximal.global->values().data() + at : nullptr,
        kind == Momentum::kNone ? nullptr : state.momentum[0].values().data() + at,
        w.values().data() + at);
  }
  ++state.steps;
}

}  // namespace muster
